// The strings that a schema of type "string" allows.
#pragma once

#include "constrain/expression.h"
#include "constrain/schema_place.h"

namespace banyan {

// By its pattern, minLength, maxLength and format, as JSON texts with their quotes.
ExpressionPtr JsonStrings(const SchemaPlace& place);

}  // namespace banyan
