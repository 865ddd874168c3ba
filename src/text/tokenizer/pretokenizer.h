// Second stage of the pipeline: splits the normalised text into pieces that the model sees one by
// one, and may respell them (byte-level, "▁" for spaces).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/regex.h"
#include "text/tokenizer/split_patterns.h"

namespace banyan {

// Pieces are ranges of `text`, in order, not empty; text between them is dropped.
struct PreTokenized {
  std::string text;
  std::vector<TextRange> pieces;
  bool at_start = true;  // the first piece begins where the whole input begins
};

using PreTokenizerStep = std::function<void(PreTokenized& input)>;

class PreTokenizer {
 public:
  void Add(PreTokenizerStep step, KnownStep known = KnownStep::kUnknown) {
    steps_.push_back(std::move(step));
    known_.push_back(known);
    words_ = WordSplitter::For(known_);
  }
  void Apply(PreTokenized& input) const {
    for (const PreTokenizerStep& step : steps_) step(input);
  }
  // The same splits, where Apply does nothing else but respell bytes; otherwise null.
  const WordSplitter* words() const { return words_ ? &*words_ : nullptr; }
  bool AllowsCutsBeforeWords() const { return banyan::AllowsCutsBeforeWords(known_); }

 private:
  std::vector<PreTokenizerStep> steps_;
  std::vector<KnownStep> known_;  // of each step
  std::optional<WordSplitter> words_;
};

// What happens to the matches of a splitting pattern.
enum class SplitBehavior {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
};

enum class PrependScheme { kAlways, kFirst, kNever };

struct MetaspaceOptions {
  std::string replacement = "\u2581";
  PrependScheme prepend = PrependScheme::kAlways;
  bool split = true;
};

PreTokenizerStep SplitRegexStep(std::shared_ptr<const Regex> pattern, SplitBehavior behavior,
                                bool invert);
PreTokenizerStep SplitStringStep(std::string pattern, SplitBehavior behavior, bool invert);
PreTokenizerStep SplitCharacterStep(std::function<bool(char32_t)> is_match, SplitBehavior behavior);
PreTokenizerStep WhitespaceStep();        // \w+|[^\w\s]+
PreTokenizerStep BertPreTokenizerStep();  // at spaces and around punctuation
PreTokenizerStep MetaspaceStep(MetaspaceOptions options);
// Cuts before every "▁" that follows another character (see BpeModel::CanCutAtMetaspace).
PreTokenizerStep CutAtMetaspaceStep();
// `gpt2_pattern` may be null: no further cuts.
PreTokenizerStep ByteLevelPreTokenizerStep(std::shared_ptr<const Regex> gpt2_pattern,
                                           bool add_prefix_space);

}  // namespace banyan
