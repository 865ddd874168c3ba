// The thread's cache, and words in byte-level spelling.
#include "text/tokenizer/word_encoder.h"

#include <algorithm>
#include <atomic>
#include <iterator>

#include "base/per_thread.h"
#include "base/work_budget.h"
#include "text/tokenizer/vocabulary.h"

namespace banyan {

WordCache& WordCache::OfThisThread() { return PerThread<WordCache>::Get(); }

std::uint64_t WordCache::NewOwner() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

void WordCache::Keep(std::uint64_t owner, std::string_view word, size_t place,
                     std::span<const TokenId> ids) {
  if (ids.size() > kMostIds) return;
  for (size_t way = kWays - 1; way > 0; --way) entries_[place + way] = entries_[place + way - 1];
  Entry& entry = entries_[place];
  const Key key = KeyOf(owner, word);
  std::copy(std::begin(key.bytes), std::end(key.bytes), entry.bytes);
  entry.tag = (key.tag << 8) | ids.size();
  std::copy(ids.begin(), ids.end(), entry.ids);
}

void WordEncoder::EncodeBytes(std::string_view text, const WordSplitter& splitter) {
  std::string spelled;
  const auto spell = [&](std::string_view word) {
    spelled.clear();
    AppendByteLevel(word, spelled);
    return std::string_view(spelled);
  };
  constexpr size_t kWordsBetweenLooks = 1 << 12;
  size_t words = 0;
  splitter.ForEachWord(text, [&](std::string_view word) {
    if (++words % kWordsBetweenLooks == 0) CheckBudget();
    EncodeWord(word, spell);
  });
}

}  // namespace banyan
