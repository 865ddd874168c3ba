// Token spelling ↔ id. Ids may leave gaps; two ids may share a spelling (the later one is found).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/types.h"

namespace banyan {

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
  size_t token_count() const { return entries_.size(); }

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

}  // namespace banyan
