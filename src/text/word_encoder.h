// Words of a text → ids, by way of the thread's cache.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/types.h"
#include "base/work_budget.h"
#include "text/pretokenizer.h"
#include "text/token_model.h"
#include "text/word_cache.h"
#include "text/word_splitter.h"

namespace banyan {

// What a tokenizer's words are encoded with. The owners stand for it in the cache.
struct WordModel {
  const TokenModel& model;
  const TokenSet* forbidden;  // may be null
  std::uint64_t owner;        // of this model with these forbidden ids
};

// One use: appends to `out`.
class WordEncoder {
 public:
  WordEncoder(const WordModel& words, std::vector<TokenId>& out)
      : words_(words), out_(out), cache_(WordCache::OfThisThread()) {}

  // Pieces in the spelling of the model's vocabulary.
  void Encode(const PreTokenized& input) {
    const std::string_view text = input.text;
    for (const TextRange& range : input.pieces) {
      EncodeWord(text.substr(range.begin, range.end - range.begin),
                 [](std::string_view piece) { return piece; });
    }
  }
  // A text whose words the model knows in byte-level spelling. REQUIRES: it is well-formed UTF-8.
  void EncodeBytes(std::string_view text, const WordSplitter& splitter);

 private:
  // spell(word) is what the model sees. An owner's words are all spelled the same way.
  template <typename Spell>
  void EncodeWord(std::string_view word, Spell spell) {
    constexpr int kWordsBetweenLooks = 1 << 14;
    if (++encoded_ % kWordsBetweenLooks == 0) CheckBudget();
    if (word.size() > WordCache::kMostBytes) {
      // What merging a word takes, measured; words of languages are not worth counting.
      constexpr size_t kLongWord = 1 << 16, kMemoryOfByte = 24;
      if (word.size() >= kLongWord) ChargeBudget(kMemoryOfByte * word.size());
      words_.model.Encode(spell(word), words_.forbidden, out_);
      return;
    }
    size_t place = 0;
    if (cache_.Find(words_.owner, word, place, out_)) return;
    const size_t first = out_.size();
    words_.model.Encode(spell(word), words_.forbidden, out_);
    cache_.Keep(words_.owner, word, place, std::span(out_).subspan(first));
  }

  WordModel words_;
  std::vector<TokenId>& out_;
  WordCache& cache_;
  std::uint32_t encoded_ = 0;  // words
};

}  // namespace banyan
