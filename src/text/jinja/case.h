// Letter case and character classes of text. One mixed string gives one user string where letters
// change, which is the safe side.
#pragma once

#include "text/jinja/runtime.h"
#include "text/jinja/text.h"

namespace banyan::jinja {

Text Upper(Runtime& runtime, const Text& text);
Text Lower(Runtime& runtime, const Text& text);
// First character upper case, the others lower case.
Text Capitalize(Runtime& runtime, const Text& text);
// As Python's str.title(): a letter after a non-letter becomes upper case.
Text Title(Runtime& runtime, const Text& text);
// As the filter `title`: words begin after white space and one of -({[<.
Text TitleWords(Runtime& runtime, const Text& text);

bool IsDigits(Runtime& runtime, const Text& text);
bool IsAlpha(Runtime& runtime, const Text& text);
// At least one cased character, and none of the other case.
bool IsUpper(Runtime& runtime, const Text& text);
bool IsLower(Runtime& runtime, const Text& text);

}  // namespace banyan::jinja
