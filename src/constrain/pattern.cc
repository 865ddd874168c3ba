#include "constrain/pattern.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "constrain/pattern_text.h"

namespace banyan {
namespace {

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

  // What stands inside a group.
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
