// Renders a parsed template.
#pragma once

#include <map>
#include <string>

#include "text/jinja/ast.h"

namespace banyan::jinja {

using Variables = std::map<std::string, Value, std::less<>>;

// Throws kInput when the template refuses the values (raise_exception, undefined, wrong types),
// kUnsupported for unknown filters, tests and methods, kLimit when it takes too much.
Text Render(Runtime& runtime, const Block& block, Variables variables);

}  // namespace banyan::jinja
