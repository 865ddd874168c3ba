// Regular expressions → Expression. The syntax: characters, classes
// ([a-z], [^…], \d \w \s and their negations, ASCII as in JSON Schema's dialect), `.` (anything
// but a newline), groups (named ones too; they capture nothing), `|`, `? * + {m} {m,} {m,n}` (a `?`
// after them changes nothing), escapes (\n \r \t \f \v \0 \xHH \x{…} \uHHHH \u{…}, punctuation).
// `^` and `$` are allowed at the ends of the pattern and of its outermost alternatives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "constrain/expression.h"

namespace banyan {

// Bounds the work for hostile patterns.
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
// automaton can do (back-references, lookaround) or this parser does not support, kLimit beyond the
// limits.
std::vector<PatternAlternative> ParsePattern(std::string_view pattern,
                                             const PatternLimits& limits = {});

// The texts that match as a whole, from the first character to the last.
ExpressionPtr WholeMatch(const std::vector<PatternAlternative>& alternatives);

// The texts in which the pattern is found somewhere, as JSON Schema's `pattern` means it.
ExpressionPtr MatchWithin(const std::vector<PatternAlternative>& alternatives);

}  // namespace banyan
