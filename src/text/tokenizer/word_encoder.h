// Words of a text → ids, through a cache per thread. Natural text repeats its words: most are found
// in the cache and never reach the model.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/types.h"
#include "base/work_budget.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/split_patterns.h"
#include "text/tokenizer/token_model.h"

namespace banyan {

// Words and their ids, a set-associative table of 1 MiB for all tokenizers of a thread. Exact: the
// whole word is compared. An entry belongs to an owner: a number for the model and the set of
// forbidden ids that determine a word's ids.
class WordCache {
 public:
  static constexpr size_t kMostBytes = 32;  // of a word
  static constexpr size_t kMostIds = 6;     // of a word's ids

  static WordCache& OfThisThread();
  // A number that was never returned before, not 0.
  static std::uint64_t NewOwner();

  // Appends the word's ids; false when it is not cached. Keep takes the returned `place`.
  // REQUIRES: 0 < word.size() <= kMostBytes.
  bool Find(std::uint64_t owner, std::string_view word, size_t& place,
            std::vector<TokenId>& out) const {
    const Key key = KeyOf(owner, word);
    place = PlaceOf(key);
    for (size_t way = 0; way < kWays; ++way) {
      const Entry& entry = entries_[place + way];
      if (!entry.Holds(key)) continue;
      const size_t count = entry.tag & 0xFF;
      if (count == 1) {
        out.push_back(entry.ids[0]);
      } else {
        out.insert(out.end(), entry.ids, entry.ids + count);
      }
      return true;
    }
    return false;
  }
  // Inserts a word after Find missed it, unless it has too many ids.
  void Keep(std::uint64_t owner, std::string_view word, size_t place, std::span<const TokenId> ids);

 private:
  static constexpr size_t kEntries = 1 << 14;
  static constexpr size_t kWays = 2;  // of a set, most recent first

  struct Key {
    std::uint64_t bytes[4] = {};
    std::uint64_t tag = 0;  // owner << 8 | the word's length
  };
  struct alignas(64) Entry {
    std::uint64_t bytes[4] = {};
    std::uint64_t tag = 0;  // the key's << 8 | number of ids
    TokenId ids[kMostIds] = {};

    bool Holds(const Key& key) const {
      return (tag >> 8) == key.tag && bytes[0] == key.bytes[0] && bytes[1] == key.bytes[1] &&
             bytes[2] == key.bytes[2] && bytes[3] == key.bytes[3];
    }
  };

  // With the length, the key determines all bytes of the word.
  static Key KeyOf(std::uint64_t owner, std::string_view word) {
    const char* const p = word.data();
    const size_t n = word.size();
    const auto load8 = [](const char* from) {
      std::uint64_t value;
      std::memcpy(&value, from, 8);
      return value;
    };
    const auto load4 = [](const char* from) {
      std::uint32_t value;
      std::memcpy(&value, from, 4);
      return static_cast<std::uint64_t>(value);
    };
    const auto byte = [&](size_t i) {
      return static_cast<std::uint64_t>(static_cast<unsigned char>(p[i]));
    };
    Key key;
    key.tag = (owner << 8) | n;
    if (n > 16) {
      key.bytes[0] = load8(p);
      key.bytes[1] = load8(p + 8);
      key.bytes[2] = load8(p + n - 16);
      key.bytes[3] = load8(p + n - 8);
    } else if (n >= 8) {
      key.bytes[0] = load8(p);
      key.bytes[1] = load8(p + n - 8);
    } else if (n >= 4) {
      key.bytes[0] = load4(p) | (load4(p + n - 4) << 32);
    } else {
      key.bytes[0] = byte(0) | (byte(n / 2) << 8) | (byte(n - 1) << 16);
    }
    return key;
  }
  static size_t PlaceOf(const Key& key) {
    std::uint64_t hash = (key.bytes[0] ^ key.tag) * 0x9E3779B97F4A7C15ull;
    hash = (hash ^ (hash >> 32) ^ key.bytes[1]) * 0xD6E8FEB86659FD93ull;
    if (key.bytes[3] != 0) {
      hash = (hash ^ (hash >> 32) ^ key.bytes[2]) * 0x9E3779B97F4A7C15ull;
      hash = (hash ^ (hash >> 32) ^ key.bytes[3]) * 0xD6E8FEB86659FD93ull;
    }
    return ((hash ^ (hash >> 32)) & (kEntries / kWays - 1)) * kWays;
  }

  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

// How words are encoded, and the owner of these encodings in the cache.
struct WordModel {
  const TokenModel& model;
  const TokenSet* forbidden;  // may be null
  std::uint64_t owner;        // of this model with these forbidden ids
};

// For one text: appends to `out`.
class WordEncoder {
 public:
  WordEncoder(const WordModel& words, std::vector<TokenId>& out)
      : words_(words), out_(out), cache_(WordCache::OfThisThread()) {}

  // Encodes pieces that are in the spelling of the model's vocabulary.
  void Encode(const PreTokenized& input) {
    const std::string_view text = input.text;
    for (const TextRange& range : input.pieces) {
      EncodeWord(text.substr(range.begin, range.end - range.begin),
                 [](std::string_view piece) { return piece; });
    }
  }
  // Encodes a text whose words the model knows in byte-level spelling. REQUIRES: it is well-formed
  // UTF-8.
  void EncodeBytes(std::string_view text, const WordSplitter& splitter);

 private:
  // The model encodes spell(word). All words of an owner must be spelled by the same function.
  template <typename Spell>
  void EncodeWord(std::string_view word, Spell spell) {
    constexpr int kWordsBetweenLooks = 1 << 14;
    if (++encoded_ % kWordsBetweenLooks == 0) CheckBudget();
    if (word.size() > WordCache::kMostBytes) {
      // Measured memory of merging a long word; ordinary words are not worth counting.
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
