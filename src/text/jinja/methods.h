// Methods of Python's str, list and dict that templates call.
#pragma once

#include <string>

#include "text/jinja/value.h"

namespace banyan::jinja {

// The method bound to `object`, or undefined when its type has none of that name that we know.
Value FindMethod(Runtime& runtime, const Value& object, const std::string& name);

// Operations that filters share with methods.
Text Trim(Runtime& runtime, const Text& text, const std::string* chars, TrimSides sides);
// At most `count` replacements, all when negative.
Text Replace(Runtime& runtime, const Text& text, const Text& from, const Text& to, int64_t count);
Text JoinTexts(Runtime& runtime, const std::vector<Value>& items, const Text& separator);
// "{} {name}".format(…).
Text FormatBraces(Runtime& runtime, const Text& format, const Arguments& arguments);

}  // namespace banyan::jinja
