// Sets of Unicode characters (scalar values: no surrogates), as ranges.
#pragma once

#include <vector>

namespace banyan {

inline constexpr char32_t kLastCharacter = 0x10FFFF;

struct CharacterRange {
  char32_t first = 0;
  char32_t last = 0;  // inclusive
  bool operator==(const CharacterRange&) const = default;
};

class CharacterSet {
 public:
  CharacterSet() = default;
  // Any order, overlaps allowed; surrogates in them are left out.
  CharacterSet(std::vector<CharacterRange> ranges);  // NOLINT(google-explicit-constructor)
  static CharacterSet Of(char32_t character) { return CharacterSet({{character, character}}); }
  static CharacterSet All() { return CharacterSet({{0, kLastCharacter}}); }

  // Ascending, disjoint, no two that touch except around the surrogates.
  const std::vector<CharacterRange>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool Contains(char32_t character) const;

  CharacterSet Complement() const;
  CharacterSet Union(const CharacterSet& other) const;
  CharacterSet Intersection(const CharacterSet& other) const;
  bool operator==(const CharacterSet&) const = default;

 private:
  std::vector<CharacterRange> ranges_;
};

}  // namespace banyan
