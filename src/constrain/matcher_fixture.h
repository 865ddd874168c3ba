// For tests: a naive matcher of Expressions on texts, by backtracking over sets of ends, and random
// patterns to try it on.
#pragma once

#include <random>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "constrain/automaton.h"
#include "constrain/expression.h"
#include "constrain/regex_parser.h"
#include "text/unicode.h"

namespace banyan::testing_support {

// Where a match of `e` that begins at one of `begins` may end.
inline std::set<size_t> MatchEnds(const Expression& e, std::u32string_view text,
                                  const std::set<size_t>& begins) {
  std::set<size_t> ends;
  switch (e.kind) {
    case Expression::Kind::kNever:
    case Expression::Kind::kSpan:  // copied_spans_test.cc checks spans
      break;
    case Expression::Kind::kNothing:
      return begins;
    case Expression::Kind::kClass:
      for (const size_t at : begins) {
        if (at < text.size() && e.set.Contains(text[at])) ends.insert(at + 1);
      }
      break;
    case Expression::Kind::kSequence:
      ends = begins;
      for (const ExpressionPtr& part : e.parts) ends = MatchEnds(*part, text, ends);
      break;
    case Expression::Kind::kChoice:
      for (const ExpressionPtr& part : e.parts) ends.merge(MatchEnds(*part, text, begins));
      break;
    case Expression::Kind::kRepeat: {
      std::set<size_t> now = begins;
      if (e.least == 0) ends = now;
      for (std::int64_t i = 1; i <= e.most && !now.empty(); ++i) {
        now = MatchEnds(*e.parts[0], text, now);
        const size_t before = ends.size();
        if (i >= e.least) ends.insert(now.begin(), now.end());
        if (i > e.least && ends.size() == before) break;
      }
      break;
    }
    case Expression::Kind::kJoined: {
      std::set<size_t> now = MatchEnds(*e.parts[0], text, begins);
      for (size_t before = ends.size(); ends.insert(now.begin(), now.end()), ends.size() > before;
           before = ends.size()) {
        now = MatchEnds(*e.parts[0], text, MatchEnds(*e.parts[1], text, now));
      }
      break;
    }
    case Expression::Kind::kList: {
      std::set<size_t> none = begins, some;
      for (size_t i = 1; i < e.parts.size(); ++i) {
        std::set<size_t> after = MatchEnds(*e.parts[i], text, none);
        after.merge(MatchEnds(*e.parts[i], text, MatchEnds(*e.parts[0], text, some)));
        if (e.required[i]) {
          none.clear();
          some.clear();
        }
        some.merge(after);
      }
      ends = none;
      ends.merge(some);
      break;
    }
  }
  return ends;
}

inline bool NaivelyMatches(const Expression& e, std::string_view utf8) {
  std::u32string text;
  for (size_t at = 0; at < utf8.size();) {
    const Utf8Character character = ReadUtf8(utf8, at);
    if (!character.valid) return false;
    text.push_back(character.code);
    at += character.length;
  }
  return MatchEnds(e, text, {0}).contains(text.size());
}

class RandomPatterns {
 public:
  explicit RandomPatterns(unsigned seed) : random_(seed) {}

  size_t Below(size_t n) { return static_cast<size_t>(random_() % n); }

  // Over a few characters of one to four bytes.
  std::string Character() {
    static constexpr const char* kCharacters[] = {"a", "b",  "c",  "-", "é",
                                                  "ß", "日", "語", "😀", "😁"};
    return kCharacters[Below(std::size(kCharacters))];
  }

  std::string Pattern(int depth = 3) {
    std::string pattern;
    for (size_t parts = 1 + Below(3); parts > 0; --parts) {
      pattern += Single(depth);
      static constexpr const char* kRepeats[] = {"?", "*", "+", "{2}", "{1,3}", "{0,2}", "{2,}"};
      if (Below(3) == 0) pattern += kRepeats[Below(std::size(kRepeats))];
    }
    if (depth > 0 && Below(5) == 0) pattern += "|" + Pattern(depth - 1);
    return pattern;
  }

  // One that is not refused for its size.
  std::string SmallPattern() {
    for (;;) {
      const std::string pattern = Pattern();
      try {
        const Dfa compiled{Nfa(*WholeMatch(ParsePattern(pattern)))};
        return pattern;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kLimit) throw;
      }
    }
  }

  std::string Text() {
    std::string text;
    for (size_t length = Below(7); length > 0; --length) text += Character();
    return text;
  }

 private:
  std::string Single(int depth) {
    switch (Below(depth > 0 ? 6 : 4)) {
      case 0:
        return ".";
      case 1: {
        // One draw after the other: operands are evaluated in any order.
        std::string opening = Below(2) == 0 ? "[^" : "[";
        return opening + Class() + "]";
      }
      case 4:
      case 5: {
        std::string opening = Below(2) == 0 ? "(" : "(?:";
        return opening + Pattern(depth - 1) + ")";
      }
      default:
        return Character();
    }
  }

  std::string Class() {
    static constexpr const char* kMembers[] = {"a-c", "\\d", "é-日", "\\-", "😀", "語", "\\w", "b"};
    std::string members;
    for (size_t n = 1 + Below(3); n > 0; --n) members += kMembers[Below(std::size(kMembers))];
    return members;
  }

  std::mt19937 random_;
};

}  // namespace banyan::testing_support
