#include "constrain/utf8_ranges.h"

#include <algorithm>
#include <string>

#include "text/utf8.h"

namespace banyan {
namespace {

// Both ends have the same number of bytes.
void AddRange(char32_t first, char32_t last, std::vector<Utf8Sequence>& out) {
  // Cut until every byte after the first that differs runs over all continuations.
  for (int bits = 6; bits <= 18; bits += 6) {
    const char32_t low_bits = (char32_t{1} << bits) - 1;
    if ((first & ~low_bits) == (last & ~low_bits)) break;
    if ((first & low_bits) != 0) {
      AddRange(first, first | low_bits, out);
      AddRange((first | low_bits) + 1, last, out);
      return;
    }
    if ((last & low_bits) != low_bits) {
      AddRange(first, (last & ~low_bits) - 1, out);
      AddRange(last & ~low_bits, last, out);
      return;
    }
  }
  std::string low, high;
  AppendUtf8(first, low);
  AppendUtf8(last, high);
  Utf8Sequence sequence;
  sequence.length = static_cast<int>(low.size());
  for (size_t i = 0; i < low.size(); ++i) {
    sequence.bytes[i] = {static_cast<std::uint8_t>(low[i]), static_cast<std::uint8_t>(high[i])};
  }
  out.push_back(sequence);
}

}  // namespace

std::vector<Utf8Sequence> Utf8Sequences(const CharacterSet& set) {
  static constexpr CharacterRange kLengths[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, kLastCharacter}};
  std::vector<Utf8Sequence> sequences;
  for (const CharacterRange& range : set.ranges()) {
    for (const CharacterRange& length : kLengths) {
      const char32_t first = std::max(range.first, length.first);
      const char32_t last = std::min(range.last, length.last);
      if (first > last) continue;
      if (last <= 0x7F) {
        sequences.push_back(
            {{ByteRange{static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last)}}, 1});
      } else {
        AddRange(first, last, sequences);
      }
    }
  }
  return sequences;
}

}  // namespace banyan
