// First stage of the pipeline: text → text (normal forms, lower case, replacements).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/charsmap.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace banyan {

// Changes a well-formed text in place and leaves it well-formed.
using NormalizerStep = std::function<void(std::string& text)>;

class Normalizer {
 public:
  void Add(NormalizerStep step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }
  // Throws kLimit when a step makes the text unreasonably longer.
  void Apply(std::string& text) const;

 private:
  std::vector<NormalizerStep> steps_;
};

struct BertNormalizerOptions {
  bool clean_text = true;            // drop control characters, make every space ' '
  bool handle_chinese_chars = true;  // spaces around ideographs
  bool strip_accents = true;
  bool lowercase = true;
};

NormalizerStep NormalFormStep(NormalForm form);
NormalizerStep LowercaseStep();
NormalizerStep StripAccentsStep();
NormalizerStep BertStep(BertNormalizerOptions options);
NormalizerStep PrependStep(std::string prefix);
NormalizerStep StripStep(bool left, bool right);
NormalizerStep ReplaceStringStep(std::string pattern, std::string content);
NormalizerStep ReplaceRegexStep(std::shared_ptr<const Regex> pattern, std::string content);
NormalizerStep NmtStep();
NormalizerStep ByteLevelStep();
// As the tokenizers library applies a charsmap: one grapheme cluster at a time.
NormalizerStep CharsmapStep(std::shared_ptr<const Charsmap> charsmap);

struct SentencePieceSpaces {
  bool add_prefix = true;  // a space before the first word
  bool merge_runs = true;  // one space for a run of them, none at the ends
};
// As SentencePiece itself does (GGUF): longest match of the charsmap (may be null), spaces → "▁".
NormalizerStep SentencePieceStep(std::shared_ptr<const Charsmap> charsmap,
                                 SentencePieceSpaces spaces);

// Replaces every `pattern` (not empty); shared with the decoders.
void ReplaceAll(std::string& text, std::string_view pattern, std::string_view content);
void ReplaceAll(std::string& text, const Regex& pattern, std::string_view content);

}  // namespace banyan
