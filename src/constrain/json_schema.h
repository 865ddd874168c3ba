// JSON Schema (a subset of draft 2020-12) → Expression: the texts that are JSON without white
// space and fit the schema. Properties come in the schema's order, objects have no others,
// numbers have no exponent.
#pragma once

#include <string_view>

#include "constrain/expression.h"

namespace banyan {

// Throws kFormat for invalid JSON, kInput for a schema that is wrong or that no value fits,
// kUnsupported for what is not in the subset, all with the JSON pointer; kLimit for a schema that
// is too large. docs/constraints.md lists the subset. `spaced`: a space after every comma and colon
// between values. `copied`: the texts that {"x-copied": true} matches, as strings; without it the
// keyword is unknown. When `copied` is kNever, so is every schema that requires it.
ExpressionPtr ReadJsonSchema(std::string_view schema, bool spaced = false,
                             ExpressionPtr copied = nullptr);

}  // namespace banyan
