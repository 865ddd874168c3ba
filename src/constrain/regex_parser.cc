// Characters, escapes and classes, then the recursive descent parser.
#include "constrain/regex_parser.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/unicode.h"

namespace banyan {
namespace {

bool IsAsciiLetter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsAsciiDigit(char32_t c) { return c >= '0' && c <= '9'; }

// The characters of a pattern, and what matches one character: escapes and classes.
class PatternText {
 public:
  // Throws kInput when it is not well-formed UTF-8.
  explicit PatternText(std::string_view utf8);

  bool AtEnd() const { return at_ == text_.size(); }
  size_t at() const { return at_; }
  char32_t Peek() const { return text_[at_]; }  // REQUIRES: not AtEnd()
  char32_t Read() { return text_[at_++]; }      // REQUIRES: not AtEnd()
  bool Take(char32_t wanted) {
    if (AtEnd() || Peek() != wanted) return false;
    ++at_;
    return true;
  }
  // Whether the character after the next one is `wanted`.
  bool FollowedBy(char32_t wanted) const {
    return at_ + 1 < text_.size() && text_[at_ + 1] == wanted;
  }
  bool NextIsLast() const { return at_ + 1 == text_.size(); }

  // Reads what follows the backslash at `begin`: one character or a class.
  CharacterSet Escape(size_t begin);
  // Reads the class that the bracket at `begin` opened, through its end. Never empty.
  CharacterSet Class(size_t begin);

  // Throws "pattern, character N: reason"; `place` counts from 0, N from 1.
  [[noreturn]] static void Refuse(ErrorKind kind, size_t place, const std::string& reason);

 private:
  CharacterSet ClassMember();
  char32_t Hexadecimal(size_t begin, int digits);
  // Reads up to `most` digits; `read` is how many there were.
  char32_t HexDigits(int most, int& read);

  std::u32string text_;
  size_t at_ = 0;
};

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

class PatternParser {
 public:
  PatternParser(std::string_view pattern, const PatternLimits& limits)
      : limits_(limits), text_(pattern) {}

  std::vector<PatternAlternative> Parse() {
    std::vector<PatternAlternative> alternatives;
    do {
      PatternAlternative alternative;
      alternative.at_start = text_.Take('^');
      std::vector<ExpressionPtr> parts;
      while (!text_.AtEnd() && text_.Peek() != '|') {
        if (text_.Peek() == '$' && (text_.NextIsLast() || text_.FollowedBy('|'))) {
          text_.Read();
          alternative.at_end = true;
          break;
        }
        if (text_.Peek() == ')') Refuse(ErrorKind::kInput, text_.at(), "')' without '('");
        parts.push_back(Repeated());
      }
      alternative.expression = Sequence(std::move(parts));
      alternatives.push_back(std::move(alternative));
    } while (text_.Take('|'));
    return alternatives;
  }

 private:
  [[noreturn]] static void Refuse(ErrorKind kind, size_t place, const std::string& reason) {
    PatternText::Refuse(kind, place, reason);
  }

  // The alternatives inside a group.
  ExpressionPtr Alternatives() {
    std::vector<ExpressionPtr> choices;
    do {
      std::vector<ExpressionPtr> parts;
      while (!text_.AtEnd() && text_.Peek() != '|' && text_.Peek() != ')')
        parts.push_back(Repeated());
      choices.push_back(Sequence(std::move(parts)));
    } while (text_.Take('|'));
    return Choice(std::move(choices));
  }

  ExpressionPtr Repeated() {
    ExpressionPtr part = Single();
    const size_t begin = text_.at();
    std::int64_t least = 0, most = kUnbounded;
    if (text_.Take('?')) {
      most = 1;
    } else if (text_.Take('+')) {
      least = 1;
    } else if (!text_.AtEnd() && text_.Peek() == '{') {
      ReadCounts(least, most);
    } else if (!text_.Take('*')) {
      return part;
    }
    if (!text_.AtEnd() && text_.Peek() == '+') {
      Refuse(ErrorKind::kUnsupported, text_.at(), "possessive repetitions are not supported");
    }
    text_.Take('?');
    if (!text_.AtEnd() && (text_.Peek() == '*' || text_.Peek() == '?' || text_.Peek() == '{')) {
      Refuse(ErrorKind::kInput, text_.at(),
             "a repetition of a repetition: put the first into a group");
    }
    if (least > limits_.count || (most != kUnbounded && most > limits_.count)) {
      Refuse(ErrorKind::kLimit, begin,
             fmt::format("at most {} repetitions can be counted", limits_.count));
    }
    return Repeat(std::move(part), least, most);
  }

  void ReadCounts(std::int64_t& least, std::int64_t& most) {
    const size_t begin = text_.at();
    text_.Read();
    const std::optional<std::int64_t> first = Number();
    least = most = first.value_or(0);
    if (text_.Take(',')) most = Number().value_or(kUnbounded);
    if (!first || !text_.Take('}')) {
      Refuse(ErrorKind::kInput, begin,
             "expected {m}, {m,} or {m,n}; a brace itself is written \\{");
    }
    if (least > most) {
      Refuse(ErrorKind::kInput, begin, fmt::format("{{{},{}}}: from more to less", least, most));
    }
  }

  std::optional<std::int64_t> Number() {
    if (text_.AtEnd() || !IsAsciiDigit(text_.Peek())) return std::nullopt;
    std::int64_t value = 0;
    for (; !text_.AtEnd() && IsAsciiDigit(text_.Peek()); text_.Read()) {
      value = std::min<std::int64_t>(value * 10 + (text_.Peek() - '0'), 1'000'000'000);
    }
    return value;
  }

  ExpressionPtr Single() {
    const size_t begin = text_.at();
    const char32_t c = text_.Read();
    switch (c) {
      case '(':
        return Group(begin);
      case '[':
        return OneOf(text_.Class(begin));
      case '.':
        return OneOf(CharacterSet::Of('\n').Complement());
      case '\\':
        return OneOf(text_.Escape(begin));
      case '*':
      case '+':
      case '?':
        Refuse(ErrorKind::kInput, begin, "nothing to repeat");
      case '{':
        Refuse(ErrorKind::kInput, begin, "nothing to repeat; a brace itself is written \\{");
      case '^':
      case '$':
        Refuse(ErrorKind::kUnsupported, begin, "^ and $ are supported at the pattern's ends alone");
      default:
        return OneOf(CharacterSet::Of(c));
    }
  }

  ExpressionPtr Group(size_t begin) {
    if (++depth_ > limits_.depth) {
      Refuse(ErrorKind::kLimit, begin, fmt::format("groups nest deeper than {}", limits_.depth));
    }
    if (text_.Take('?')) ReadGroupKind(begin);
    ExpressionPtr inside = Alternatives();
    if (!text_.Take(')')) Refuse(ErrorKind::kInput, begin, "'(' without ')'");
    --depth_;
    return inside;
  }

  // After "(?".
  void ReadGroupKind(size_t begin) {
    if (text_.Take(':')) return;
    text_.Take('P');
    if (text_.Take('<') && !text_.AtEnd() && text_.Peek() != '=' && text_.Peek() != '!') {
      while (!text_.AtEnd() &&
             (IsAsciiLetter(text_.Peek()) || IsAsciiDigit(text_.Peek()) || text_.Peek() == '_'))
        text_.Read();
      if (text_.Take('>')) return;
      Refuse(ErrorKind::kInput, begin, "expected a group's name and '>'");
    }
    Refuse(ErrorKind::kUnsupported, begin,
           "groups are (…), (?:…) or (?<name>…): lookaround and flags are not supported");
  }

  const PatternLimits limits_;
  PatternText text_;
  int depth_ = 0;
};

}  // namespace

std::vector<PatternAlternative> ParsePattern(std::string_view pattern,
                                             const PatternLimits& limits) {
  if (pattern.size() > limits.bytes) {
    Throw(ErrorKind::kLimit, "pattern: {} bytes, at most {} are allowed", pattern.size(),
          limits.bytes);
  }
  return PatternParser(pattern, limits).Parse();
}

ExpressionPtr WholeMatch(const std::vector<PatternAlternative>& alternatives) {
  std::vector<ExpressionPtr> choices;
  for (const PatternAlternative& alternative : alternatives) {
    choices.push_back(alternative.expression);
  }
  return Choice(std::move(choices));
}

ExpressionPtr MatchWithin(const std::vector<PatternAlternative>& alternatives) {
  const ExpressionPtr anything = Repeat(OneOf(CharacterSet::All()), 0, kUnbounded);
  std::vector<ExpressionPtr> choices;
  for (const PatternAlternative& alternative : alternatives) {
    choices.push_back(Sequence({alternative.at_start ? Nothing() : anything, alternative.expression,
                                alternative.at_end ? Nothing() : anything}));
  }
  return Choice(std::move(choices));
}

}  // namespace banyan
