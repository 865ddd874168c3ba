// Texts as they stand between the quotes of a JSON string.
#pragma once

#include "constrain/expression.h"

namespace banyan {

// One character of a JSON string, in every spelling: itself, \n, \u000a, a pair of surrogates.
ExpressionPtr AnyJsonCharacter();

// The texts of `expression` as JSON strings, quotes included; what must be escaped is, the short
// way, and nothing else.
ExpressionPtr QuotedJson(const ExpressionPtr& expression);

}  // namespace banyan
