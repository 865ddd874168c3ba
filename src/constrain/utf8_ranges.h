// Ranges of characters as sequences of byte ranges: what an automaton over bytes reads.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "constrain/character_set.h"

namespace banyan {

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
