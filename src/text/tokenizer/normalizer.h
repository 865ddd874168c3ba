// First stage of the pipeline: text → text (normal forms, lower case, replacements, SentencePiece's
// charsmap).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"
#include "text/unicode.h"

namespace banyan {

// SentencePiece's precompiled normalisation table: a double-array trie of byte strings, each with a
// replacement text.

class Charsmap {
 public:
  // `blob` as in sentencepiece's model file: uint32 size of the trie, trie, texts ending in NUL.
  // Throws kFormat, naming `what`, when the sizes do not fit.
  Charsmap(std::string_view blob, const std::string& what);

  struct Match {
    size_t length;  // bytes of the key
    std::string_view replacement;
  };
  // The shortest or the longest key that `text` begins with.
  std::optional<Match> FindShortest(std::string_view text) const { return Find(text, false); }
  std::optional<Match> FindLongest(std::string_view text) const { return Find(text, true); }

 private:
  std::optional<Match> Find(std::string_view text, bool longest) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

// Throws kFormat, naming `what`.
std::string DecodeBase64(std::string_view text, const std::string& what);

// Changes a well-formed text in place and leaves it well-formed.
using NormalizerStep = std::function<void(std::string& text)>;

class Normalizer {
 public:
  // What a step is known to do.
  enum class Effect {
    kAny,
    kNfc,            // normal form C
    kNormalForm,     // any normal form of Unicode
    kPrepend,        // prepends a string
    kReplaceSpaces,  // replaces every ' '
  };
  void Add(NormalizerStep step, Effect effect = Effect::kAny) {
    steps_.push_back({std::move(step), effect});
  }
  bool empty() const { return steps_.empty(); }
  // continues: the text is the rest of another, so nothing is prepended. Throws kLimit when a step
  // makes the text unreasonably longer.
  void Apply(std::string& text, bool continues = false) const;

  // A quick test: true if the steps certainly do not change `text`.
  bool Keeps(std::string_view text) const;
  // Whether normalising a text in two parts, cut before a space and the second with `continues`,
  // gives the same result as normalising the whole.
  bool AllowsCutsBeforeSpaces() const;

 private:
  struct Step {
    NormalizerStep apply;
    Effect effect;
  };
  std::vector<Step> steps_;
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
