// Values → text: Python's str() and json.dumps.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace banyan::jinja {

// As Python's str() of a string, number, bool or None; Undefined gives "". Throws kUnsupported for
// others.
Text Str(Runtime& runtime, const Value& value);

// As Python's json.dumps with ensure_ascii off. `indent`: spaces a level; nothing: on one line. The
// result is user text when any string inside is.
Text DumpJson(Runtime& runtime, const Value& value, std::optional<int> indent);

}  // namespace banyan::jinja
