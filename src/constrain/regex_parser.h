// The characters of a pattern, one after another, and what stands for one character: escapes and
// classes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/error.h"
#include "constrain/character_set.h"
#include "constrain/expression.h"

namespace banyan {

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

  // What follows the backslash at `begin`: one character or a class.
  CharacterSet Escape(size_t begin);
  // What follows the bracket at `begin`, up to and with its end. Never empty.
  CharacterSet Class(size_t begin);

  // Throws "pattern, character N: reason"; `place` counts from 0, N from 1.
  [[noreturn]] static void Refuse(ErrorKind kind, size_t place, const std::string& reason);

 private:
  CharacterSet ClassMember();
  char32_t Hexadecimal(size_t begin, int digits);
  // Up to `most` digits; how many there were is in `read`.
  char32_t HexDigits(int most, int& read);

  std::u32string text_;
  size_t at_ = 0;
};

inline bool IsAsciiLetter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool IsAsciiDigit(char32_t c) { return c >= '0' && c <= '9'; }

// Regular expressions as people write them → Expression. The syntax: characters, classes
// ([a-z], [^…], \d \w \s and their negations, ASCII as in JSON Schema's dialect), `.` (anything
// but a newline), groups (named ones too; they capture nothing), `|`, `? * + {m} {m,} {m,n}` (a `?`
// after them changes nothing), escapes (\n \r \t \f \v \0 \xHH \x{…} \uHHHH \u{…}, punctuation).
// `^` and `$` may stand at the ends of the pattern and of its outermost alternatives.

// What a pattern may have at most, so that hostile ones end soon.
struct PatternLimits {
  size_t bytes = 1 << 16;
  int depth = 200;             // groups inside groups
  std::int64_t count = 10000;  // m and n of {m,n}
};

// One outermost alternative of a pattern.
struct PatternAlternative {
  ExpressionPtr expression;
  bool at_start = false;  // begins with ^
  bool at_end = false;    // ends with $
};

// Throws kInput with the position (in characters from 1) and the reason, kUnsupported for what no
// automaton can do (back-references, lookaround) or we do not have, kLimit beyond the limits.
std::vector<PatternAlternative> ParsePattern(std::string_view pattern,
                                             const PatternLimits& limits = {});

// The texts that match as a whole, from the first character to the last.
ExpressionPtr WholeMatch(const std::vector<PatternAlternative>& alternatives);

// The texts in which the pattern is found somewhere, as JSON Schema's `pattern` means it.
ExpressionPtr MatchWithin(const std::vector<PatternAlternative>& alternatives);

}  // namespace banyan
