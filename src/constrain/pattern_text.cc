#include "constrain/pattern_text.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "text/utf8.h"

namespace banyan {
namespace {

const CharacterSet& Digits() {
  static const CharacterSet set({{'0', '9'}});
  return set;
}
const CharacterSet& WordCharacters() {
  static const CharacterSet set({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
  return set;
}
const CharacterSet& Spaces() {
  static const CharacterSet set({{'\t', '\r'}, {' ', ' '}});
  return set;
}

int HexValue(char32_t c) {
  if (IsAsciiDigit(c)) return static_cast<int>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<int>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<int>(c - 'A' + 10);
  return -1;
}

char32_t OnlyCharacter(const CharacterSet& set, size_t place) {
  if (set.ranges().size() != 1 || set.ranges()[0].first != set.ranges()[0].last) {
    PatternText::Refuse(ErrorKind::kInput, place,
                        "a range needs a character on either side of '-'");
  }
  return set.ranges()[0].first;
}

}  // namespace

PatternText::PatternText(std::string_view utf8) {
  for (size_t at = 0; at < utf8.size();) {
    const Utf8Character character = ReadUtf8(utf8, at);
    if (!character.valid) Refuse(ErrorKind::kInput, text_.size(), "not well-formed UTF-8");
    text_.push_back(character.code);
    at += character.length;
  }
}

void PatternText::Refuse(ErrorKind kind, size_t place, const std::string& reason) {
  Throw(kind, "pattern, character {}: {}", place + 1, reason);
}

CharacterSet PatternText::Class(size_t begin) {
  const bool negated = Take('^');
  if (!AtEnd() && Peek() == ']') {
    Refuse(ErrorKind::kInput, at_, "an empty class; ']' itself is written \\]");
  }
  std::vector<CharacterRange> ranges;
  while (!Take(']')) {
    if (AtEnd()) Refuse(ErrorKind::kInput, begin, "'[' without ']'");
    const size_t place = at_;
    const CharacterSet first = ClassMember();
    if (!AtEnd() && Peek() == '-' && !NextIsLast() && !FollowedBy(']')) {
      ++at_;
      const CharacterSet last = ClassMember();
      const char32_t low = OnlyCharacter(first, place), high = OnlyCharacter(last, place);
      if (low > high) Refuse(ErrorKind::kInput, place, "a range from a later character back");
      ranges.push_back({low, high});
    } else {
      ranges.insert(ranges.end(), first.ranges().begin(), first.ranges().end());
    }
  }
  CharacterSet set(std::move(ranges));
  if (negated) set = set.Complement();
  if (set.empty()) Refuse(ErrorKind::kInput, begin, "the class has no character");
  return set;
}

CharacterSet PatternText::ClassMember() {
  const size_t begin = at_;
  const char32_t c = text_[at_++];
  if (c == '\\') return Escape(begin);
  if (c == '[' && !AtEnd() && (Peek() == ':' || Peek() == '=' || Peek() == '.')) {
    Refuse(ErrorKind::kUnsupported, begin, "named classes are not supported; write \\[ for '['");
  }
  return CharacterSet::Of(c);
}

CharacterSet PatternText::Escape(size_t begin) {
  if (AtEnd()) Refuse(ErrorKind::kInput, begin, "a backslash with nothing after it");
  const char32_t c = text_[at_++];
  switch (c) {
    case 'd':
      return Digits();
    case 'D':
      return Digits().Complement();
    case 'w':
      return WordCharacters();
    case 'W':
      return WordCharacters().Complement();
    case 's':
      return Spaces();
    case 'S':
      return Spaces().Complement();
    case 'n':
      return CharacterSet::Of('\n');
    case 'r':
      return CharacterSet::Of('\r');
    case 't':
      return CharacterSet::Of('\t');
    case 'f':
      return CharacterSet::Of('\f');
    case 'v':
      return CharacterSet::Of('\v');
    case '0':
      if (!AtEnd() && IsAsciiDigit(Peek())) {
        Refuse(ErrorKind::kUnsupported, begin, "octal escapes are not supported: write \\xHH");
      }
      return CharacterSet::Of(0);
    case 'x':
      return CharacterSet::Of(Hexadecimal(begin, 2));
    case 'u':
      return CharacterSet::Of(Hexadecimal(begin, 4));
    default:
      break;
  }
  if (IsAsciiDigit(c)) {
    Refuse(ErrorKind::kUnsupported, begin, "back-references are not supported");
  }
  if (IsAsciiLetter(c)) {
    Refuse(ErrorKind::kUnsupported, begin,
           fmt::format("the escape \\{} is not supported", static_cast<char>(c)));
  }
  return CharacterSet::Of(c);
}

char32_t PatternText::HexDigits(int most, int& read) {
  char32_t code = 0;
  for (read = 0; read < most && !AtEnd() && HexValue(Peek()) >= 0; ++read) {
    code = code * 16 + static_cast<char32_t>(HexValue(Read()));
  }
  return code;
}

// HH, HHHH or {H…}; two \u that make a pair of surrogates are one character.
char32_t PatternText::Hexadecimal(size_t begin, int digits) {
  const bool braces = Take('{');
  int read = 0;
  const char32_t code = HexDigits(braces ? 6 : digits, read);
  if (read == 0 || (!braces && read < digits) || (braces && !Take('}'))) {
    Refuse(ErrorKind::kInput, begin, "expected hexadecimal digits");
  }
  const bool high_half = code >= 0xD800 && code < 0xDC00;
  if (high_half && digits == 4 && !braces && !AtEnd() && Peek() == '\\' && FollowedBy('u')) {
    at_ += 2;
    const char32_t low = HexDigits(4, read);
    if (read < 4 || low < 0xDC00 || low > 0xDFFF) {
      Refuse(ErrorKind::kInput, begin, "half of a pair of surrogates");
    }
    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  if (code > kLastCharacter || (code >= 0xD800 && code <= 0xDFFF)) {
    Refuse(ErrorKind::kInput, begin, "no such character");
  }
  return code;
}

}  // namespace banyan
