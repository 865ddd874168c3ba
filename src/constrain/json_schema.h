// The strings that a schema of type "string" allows.
#pragma once

#include <string_view>

#include "constrain/expression.h"
#include "constrain/schema_document.h"

namespace banyan {

// By its pattern, minLength, maxLength and format, as JSON texts with their quotes.
ExpressionPtr JsonStrings(const SchemaPlace& place);

// JSON Schema (a subset of draft 2020-12) → Expression: the texts that are JSON without white
// space and fit the schema. Properties come in the schema's order, objects have no others than
// those, numbers have no exponent.

// Throws kFormat for text that is no JSON, kInput for a schema that is wrong or that nothing fits,
// kUnsupported for what the subset has not, all with the JSON pointer of the place; kLimit for a
// schema that is too large. docs/constraints.md lists the subset.
// `spaced`: a space after every comma and colon between values.
// `copied`: the texts that {"x-copied": true} stands for, as strings; without it the keyword is
// unknown. When `copied` is kNever, so is whatever needs it.
ExpressionPtr ReadJsonSchema(std::string_view schema, bool spaced = false,
                             ExpressionPtr copied = nullptr);

}  // namespace banyan
