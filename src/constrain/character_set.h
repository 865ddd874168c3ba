// Sets of Unicode characters (scalar values: no surrogates), as ranges of characters and as the
// byte sequences that an automaton reads.
#pragma once

#include <array>
#include <cstdint>
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
  // Any order, overlaps allowed; surrogates are dropped.
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

struct ByteRange {
  std::uint8_t low = 0;
  std::uint8_t high = 0;  // inclusive
  bool operator==(const ByteRange&) const = default;
};

// Stands for every text of `length` bytes whose byte i lies in bytes[i].
struct Utf8Sequence {
  std::array<ByteRange, 4> bytes{};
  int length = 0;
};

// The UTF-8 of exactly the characters of `set`, each by one sequence.
std::vector<Utf8Sequence> Utf8Sequences(const CharacterSet& set);

}  // namespace banyan
