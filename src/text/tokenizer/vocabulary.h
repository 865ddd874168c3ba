// Tokens by id and by spelling, sets of ids, and the two ways in which spellings encode bytes:
// GPT-2's byte-level alphabet and SentencePiece's <0xNN>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/types.h"

namespace banyan {

// Token spelling ↔ id. Ids may leave gaps; two ids may share a spelling (the later one is found).
class Vocabulary {
 public:
  // Highest id that a file may name: bounds what a hostile id can make us allocate.
  static constexpr TokenId kMaxId = (1 << 22) - 1;

  // Throws kFormat, naming `what`, for an id outside 0 … kMaxId. A second text for an id replaces
  // the first in Text(); both are found.
  void Add(std::int64_t id, std::string_view token, const std::string& what);

  std::optional<TokenId> Find(std::string_view token) const;
  std::string_view Text(TokenId id) const;       // empty for a gap or an id outside
  bool Has(TokenId id) const;                    // false for gaps and ids outside
  size_t size() const { return spans_.size(); }  // highest id + 1

 private:
  struct Entry {
    size_t begin;
    std::uint32_t length;
    TokenId id;
  };
  std::string_view TextOf(const Entry& e) const {
    return std::string_view(characters_).substr(e.begin, e.length);
  }
  size_t SlotFor(std::string_view token, size_t hash) const;
  void Rehash(size_t slots);

  std::string characters_;             // all spellings, one after another
  std::vector<Entry> entries_;         // in order of Add
  std::vector<std::uint32_t> slots_;   // open addressing: entry index + 1, 0 = free
  std::vector<std::uint32_t> hashes_;  // high hash bits of the slot's entry
  std::vector<std::uint32_t> spans_;   // id → entry index + 1, 0 = gap
};

// A set of ids.
class TokenSet {
 public:
  void Insert(TokenId id) {
    if (id < 0) return;
    if (static_cast<size_t>(id) >= bits_.size()) bits_.resize(static_cast<size_t>(id) + 1, false);
    bits_[static_cast<size_t>(id)] = true;
  }
  bool Contains(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < bits_.size() && bits_[static_cast<size_t>(id)];
  }

 private:
  std::vector<bool> bits_;
};

// A fixed set of byte strings with a value each, for matching at a position of a text.
class ByteTrie {
 public:
  ByteTrie() = default;
  // Empty keys are left out; of equal keys the first stays. Values must not be negative.
  explicit ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> keys);

  bool empty() const { return nodes_.empty(); }

  // Calls visit(length, value) for every key that begins at `position`, shortest first.
  template <typename Visit>
  void ForEachPrefix(std::string_view text, size_t position, Visit visit) const {
    if (nodes_.empty()) return;
    std::int32_t node = 0;
    for (size_t i = position; i < text.size(); ++i) {
      node = Child(node, static_cast<unsigned char>(text[i]));
      if (node < 0) return;
      const std::int32_t value = nodes_[static_cast<size_t>(node)].value;
      if (value >= 0) visit(i + 1 - position, value);
    }
  }

 private:
  struct Node {  // children are neighbours, in order of their label
    std::int32_t first_child = 0;
    std::int32_t children = 0;
    std::int32_t value = -1;
  };
  std::int32_t Child(std::int32_t node, unsigned char label) const {
    const Node& parent = nodes_[static_cast<size_t>(node)];
    auto low = static_cast<size_t>(parent.first_child);
    size_t high = low + static_cast<size_t>(parent.children);
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (labels_[middle] == label) return static_cast<std::int32_t>(middle);
      if (labels_[middle] < label) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return -1;
  }

  std::vector<Node> nodes_;
  std::vector<unsigned char> labels_;  // of the edge into each node
};

// GPT-2's reversible spelling of bytes as printable characters: the 188 bytes that print stand for
// themselves, the others for U+0100 and up in order. A space is 'Ġ', a newline 'Ċ'.

void AppendByteLevel(std::string_view bytes, std::string& out);

// The inverse. False, with nothing appended, when a character of `token` spells no byte.
bool AppendFromByteLevel(std::string_view token, std::string& out);
// The same; nullopt when a character of `token` spells no byte.
std::optional<std::string> FromByteLevel(std::string_view token);

// "<0x0A>" → 10; -1 for any other spelling.
int ParseByteToken(std::string_view token);
// Id of "<0x00>" … "<0xFF>", -1 where the vocabulary has none.
std::vector<TokenId> FindByteTokens(const Vocabulary& vocabulary);

}  // namespace banyan
