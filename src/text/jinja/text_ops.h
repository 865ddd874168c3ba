// Operations on texts that methods and filters share. Parts keep their origin.
#pragma once

#include <string>
#include <vector>

#include "text/jinja/value.h"

namespace banyan::jinja {

Text Trim(Runtime& runtime, const Text& text, const std::string* chars, TrimSides sides);
// At most `count` replacements, all when negative.
Text Replace(Runtime& runtime, const Text& text, const Text& from, const Text& to, int64_t count);
Text JoinTexts(Runtime& runtime, const std::vector<Value>& items, const Text& separator);

}  // namespace banyan::jinja
