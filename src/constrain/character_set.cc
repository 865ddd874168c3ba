#include "constrain/character_set.h"

#include <algorithm>
#include <utility>

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

}  // namespace banyan
