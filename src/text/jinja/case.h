// Letter case of text. One mixed string gives one user string where letters
// change, which is the safe side.
#pragma once

#include "text/jinja/runtime.h"
#include "text/jinja/text.h"

namespace banyan::jinja {

Text Upper(Runtime& runtime, const Text& text);
Text Lower(Runtime& runtime, const Text& text);
// First character upper case, the others lower case.
Text Capitalize(Runtime& runtime, const Text& text);
}  // namespace banyan::jinja
