// Sets of characters as sorted ranges and as UTF-8, constructors of nodes, then the spans of a
// text.
#include "constrain/expression.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/work_budget.h"
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

namespace {

using Kind = Expression::Kind;

std::int64_t Sum(std::int64_t a, std::int64_t b) { return a > kUnbounded - b ? kUnbounded : a + b; }

std::int64_t Product(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) return 0;
  return a > kUnbounded / b ? kUnbounded : a * b;
}

// A long text, or a list of many, becomes a node for every character.
std::shared_ptr<Expression> Make(Kind kind) {
  constexpr unsigned kNodesBetweenLooks = 1 << 12;
  thread_local unsigned made_so_far = 0;
  if (++made_so_far % kNodesBetweenLooks == 0) CheckBudget();
  auto made = std::make_shared<Expression>();
  made->kind = kind;
  return made;
}

}  // namespace

ExpressionPtr Never() {
  static const ExpressionPtr never = Make(Kind::kNever);
  return never;
}

ExpressionPtr Nothing() {
  static const ExpressionPtr nothing = Make(Kind::kNothing);
  return nothing;
}

ExpressionPtr OneOf(CharacterSet set) {
  if (set.empty()) return Never();
  auto made = Make(Kind::kClass);
  made->set = std::move(set);
  made->shortest = made->longest = 1;
  return made;
}

ExpressionPtr Literal(std::string_view utf8) {
  std::vector<ExpressionPtr> parts;
  for (size_t at = 0; at < utf8.size();) {
    const Utf8Character character = ReadUtf8(utf8, at);
    parts.push_back(OneOf(CharacterSet::Of(character.code)));
    at += character.length;
  }
  return Sequence(std::move(parts));
}

ExpressionPtr Sequence(std::vector<ExpressionPtr> parts) {
  std::erase_if(parts, [](const ExpressionPtr& part) { return part->kind == Kind::kNothing; });
  for (const ExpressionPtr& part : parts) {
    if (part->kind == Kind::kNever) return Never();
  }
  if (parts.empty()) return Nothing();
  if (parts.size() == 1) return parts[0];
  auto made = Make(Kind::kSequence);
  for (const ExpressionPtr& part : parts) {
    made->shortest = Sum(made->shortest, part->shortest);
    made->longest = Sum(made->longest, part->longest);
  }
  made->parts = std::move(parts);
  return made;
}

ExpressionPtr Choice(std::vector<ExpressionPtr> parts) {
  std::erase_if(parts, [](const ExpressionPtr& part) { return part->kind == Kind::kNever; });
  if (parts.empty()) return Never();
  if (std::ranges::all_of(parts, [](const auto& p) { return p->kind == Kind::kNothing; })) {
    return Nothing();
  }
  if (parts.size() == 1) return parts[0];
  auto made = Make(Kind::kChoice);
  made->shortest = kUnbounded;
  for (const ExpressionPtr& part : parts) {
    made->shortest = std::min(made->shortest, part->shortest);
    made->longest = std::max(made->longest, part->longest);
  }
  made->parts = std::move(parts);
  return made;
}

ExpressionPtr Repeat(ExpressionPtr part, std::int64_t least, std::int64_t most) {
  if (part->kind == Kind::kNothing || most == 0) return Nothing();
  if (part->kind == Kind::kNever) return least == 0 ? Nothing() : Never();
  if (least == 1 && most == 1) return part;
  auto made = Make(Kind::kRepeat);
  made->least = least;
  made->most = most;
  made->shortest = Product(part->shortest, least);
  made->longest = Product(part->longest, most);
  made->parts = {std::move(part)};
  return made;
}

ExpressionPtr List(ExpressionPtr separator, std::vector<ListItem> items) {
  auto made = Make(Kind::kList);
  made->parts.push_back(separator);
  made->required.push_back(false);
  for (ListItem& item : items) {
    if (item.value->kind == Kind::kNever) {
      if (item.required) return Never();
      continue;
    }
    made->longest = Sum(made->longest, Sum(item.value->longest, separator->longest));
    made->parts.push_back(std::move(item.value));
    made->required.push_back(item.required);
  }
  if (made->parts.size() == 1) return Nothing();
  return made;  // `shortest` stays 0: it is only a lower bound
}

ExpressionPtr SpanOf(std::shared_ptr<const SpanSource> source, SpanForm form) {
  if (source->starts.empty()) return Never();
  auto made = Make(Kind::kSpan);
  made->shortest = 1;
  made->longest = static_cast<std::int64_t>(2 * source->bytes.size());
  made->source = std::move(source);
  made->form = form;
  return made;
}

ExpressionPtr Joined(ExpressionPtr part, ExpressionPtr separator) {
  if (part->kind == Kind::kNever || part->kind == Kind::kNothing) return part;
  auto made = Make(Kind::kJoined);
  made->shortest = part->shortest;
  made->longest = kUnbounded;
  made->parts = {std::move(part), std::move(separator)};
  return made;
}

namespace {

bool IsSpace(int byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }
bool IsDigit(int byte) { return byte >= '0' && byte <= '9'; }
bool IsWord(int byte) {
  const int letter = byte | 0x20;
  return IsDigit(byte) || (letter >= 'a' && letter <= 'z' && byte < 0x80) || byte >= 0x80;
}
bool JoinsDigits(int byte) { return byte == '.' || byte == ',' || byte == ':' || byte == '/'; }

// A source under construction.
struct SourceText : SpanSource {
  int at(size_t p) const { return p < bytes.size() ? bytes[p] : kBreak; }

  // Between bytes p - 1 and p, inside a text.
  bool IsBoundary(size_t p) const {
    const int before = p == 0 ? kBreak : at(p - 1), after = at(p);
    if (before == kBreak || after == kBreak) return true;
    if (IsDigit(before) && JoinsDigits(after) && IsDigit(at(p + 1))) return false;
    if (JoinsDigits(before) && IsDigit(after) && p >= 2 && IsDigit(at(p - 2))) return false;
    return !(IsWord(before) && IsWord(after));
  }

  void AddBreak() {
    while (!bytes.empty() && bytes.back() == ' ') bytes.pop_back();
    if (!bytes.empty() && bytes.back() != kBreak) bytes.push_back(kBreak);
  }

  void AddCharacter(std::string_view part, bool has_tokens, bool space_has_token) {
    if (IsSpace(static_cast<std::uint8_t>(part[0]))) {
      const bool inside = !bytes.empty() && bytes.back() != kBreak && bytes.back() != ' ';
      if (inside && space_has_token) bytes.push_back(' ');
      if (inside && !space_has_token) AddBreak();
    } else if (has_tokens) {
      for (const char byte : part) bytes.push_back(static_cast<std::uint8_t>(byte));
    } else {
      AddBreak();
    }
  }

  void FindBoundaries() {
    ends.assign(bytes.size() + 1, false);
    for (size_t p = 0; p < bytes.size(); ++p) {
      if (!IsBoundary(p)) continue;
      ends[p] = p > 0 && at(p - 1) != kBreak && at(p - 1) != ' ';
      if (at(p) != kBreak && at(p) != ' ') starts.push_back(static_cast<std::uint32_t>(p));
    }
  }
};

}  // namespace

std::shared_ptr<const SpanSource> MakeSpanSource(std::string_view text,
                                                 const std::bitset<256>& without) {
  auto source = std::make_shared<SourceText>();
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = ReadUtf8(text, at);
    const std::string_view part = text.substr(at, std::max<size_t>(character.length, 1));
    at += part.size();
    const bool has_tokens = character.valid && std::ranges::none_of(part, [&](char c) {
                              const auto byte = static_cast<std::uint8_t>(c);
                              return without[byte] || byte < 0x20 || byte == 0x7F;
                            });
    source->AddCharacter(part, has_tokens, !without[' ']);
  }
  source->AddBreak();
  source->FindBoundaries();
  return source;
}

}  // namespace banyan
