// Renders a parsed template.
#pragma once

#include "text/jinja/parser.h"
#include "text/jinja/value.h"

namespace banyan::jinja {

// Throws kInput when the template refuses the values (raise_exception, undefined, wrong types),
// kUnsupported for unknown filters, tests and methods, kLimit when it takes too much.
Text Render(Runtime& runtime, const Block& block, Variables variables);

}  // namespace banyan::jinja
