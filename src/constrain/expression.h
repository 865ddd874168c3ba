// What a constraint says, as a tree: a regular expression over characters. Patterns and schemas
// are read into it (pattern.h, json_schema.h) and automata are made of it (nfa.h). Nodes are
// immutable and may be shared.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "constrain/character_set.h"

namespace banyan {

struct Expression;
struct SpanSource;  // copy_text.h
using ExpressionPtr = std::shared_ptr<const Expression>;

inline constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

// How a span is written.
enum class SpanForm {
  kPlain,
  kJson,  // as inside a JSON string: quotes and backslashes escaped, without the string's quotes
};

struct Expression {
  enum class Kind {
    kNever,     // no text at all
    kNothing,   // the empty text
    kClass,     // one character of `set`
    kSequence,  // `parts` one after another
    kChoice,    // one of `parts`
    kRepeat,    // parts[0], from `least` to `most` times
    kList,      // parts[1 …], each at most once and in order, parts[0] between any two; those
                // with required[i] (of parts[i]) at least once
    kSpan,      // a span of `source`
  };
  Kind kind = Kind::kNever;
  CharacterSet set;
  std::vector<ExpressionPtr> parts;
  std::vector<bool> required;
  std::shared_ptr<const SpanSource> source;
  SpanForm form = SpanForm::kPlain;
  std::int64_t least = 0, most = 0;        // kUnbounded: no end
  std::int64_t shortest = 0, longest = 0;  // bounds of a text's length in characters
};

// Makers. They leave out what cannot be (kNever) and what is empty, so that a tree either is one
// kNever node or has none, and so that every other node than kNothing costs its automaton a state.
ExpressionPtr Never();
ExpressionPtr Nothing();
ExpressionPtr OneOf(CharacterSet set);
ExpressionPtr Literal(std::string_view utf8);  // REQUIRES: well-formed
ExpressionPtr Sequence(std::vector<ExpressionPtr> parts);
ExpressionPtr Choice(std::vector<ExpressionPtr> parts);
ExpressionPtr Repeat(ExpressionPtr part, std::int64_t least, std::int64_t most);

// kNever for a source without a span.
ExpressionPtr SpanOf(std::shared_ptr<const SpanSource> source, SpanForm form);

struct ListItem {
  ExpressionPtr value;
  bool required = true;
};
ExpressionPtr List(ExpressionPtr separator, std::vector<ListItem> items);

}  // namespace banyan
