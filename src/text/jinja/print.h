// Values → text: Python's str() and repr(), and json.dumps.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace banyan::jinja {

// As Python's str(); Undefined gives "".
Text Str(Runtime& runtime, const Value& value);

// As Python's repr(). The result is user text when any string inside is.
Text Repr(Runtime& runtime, const Value& value);

std::string FloatRepr(double number);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string indent;  // of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// As Python's json.dumps. The result is user text when any string inside is.
Text DumpJson(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace banyan::jinja
