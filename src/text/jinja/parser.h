// Tokens → syntax tree.
#pragma once

#include <string_view>

#include "text/jinja/ast.h"

namespace banyan::jinja {

// Throws kFormat for bad syntax, kUnsupported for tags outside the subset, kLimit when the source
// is too long or nests too deeply. The message names the line.
Block ParseTemplate(std::string_view source, const Limits& limits);

}  // namespace banyan::jinja
