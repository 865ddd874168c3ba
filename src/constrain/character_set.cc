// Set operations on sorted ranges, and ranges of UTF-8.
#include "constrain/character_set.h"

#include <algorithm>
#include <string>
#include <utility>

#include "text/unicode.h"

namespace banyan {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800;
constexpr char32_t kLastSurrogate = 0xDFFF;

}  // namespace

CharacterSet::CharacterSet(std::vector<CharacterRange> ranges) {
  std::vector<CharacterRange> scalars;
  scalars.reserve(ranges.size());
  const auto add = [&](char32_t first, char32_t last) {
    if (first <= last) scalars.push_back({first, last});
  };
  for (const CharacterRange& range : ranges) {
    add(range.first, std::min<char32_t>(range.last, kFirstSurrogate - 1));
    add(std::max<char32_t>(range.first, kLastSurrogate + 1), std::min(range.last, kLastCharacter));
  }
  std::ranges::sort(scalars, {}, &CharacterRange::first);
  for (const CharacterRange& range : scalars) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

bool CharacterSet::Contains(char32_t character) const {
  return std::ranges::any_of(ranges_, [character](const CharacterRange& range) {
    return range.first <= character && character <= range.last;
  });
}

CharacterSet CharacterSet::Complement() const {
  std::vector<CharacterRange> gaps;
  char32_t next = 0;
  for (const CharacterRange& range : ranges_) {
    if (range.first > next) gaps.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCharacter) gaps.push_back({next, kLastCharacter});
  return CharacterSet(std::move(gaps));
}

CharacterSet CharacterSet::Union(const CharacterSet& other) const {
  std::vector<CharacterRange> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return CharacterSet(std::move(both));
}

CharacterSet CharacterSet::Intersection(const CharacterSet& other) const {
  return Complement().Union(other.Complement()).Complement();
}

namespace {

// Both ends have the same number of bytes.
void AddRange(char32_t first, char32_t last, std::vector<Utf8Sequence>& out) {
  // Split until every byte after the first that differs covers all continuation bytes.
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
