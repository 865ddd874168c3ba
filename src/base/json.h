// JSON by nlohmann-json, with our error type, and rows that keep numbers as they were written. The
// header is heavy to compile: include it only where JSON is handled.
#pragma once

#include <string>
#include <string_view>

#include "program/json_library.h"

namespace banyan {

using Json = nlohmann::json;

// `what` names the source in the message ("FILE", "FILE line 7"). Throws kFormat on bad JSON and
// when arrays and objects nest deeper than 256.
Json ParseJson(std::string_view text, const std::string& what);

// A row as its author wrote it: a number that a double or 64-bit integer would not write back
// digit for digit is kept as its text; IsNumber is true for it and is_number() is not. Throws
// kFormat on bad JSON and when arrays and objects nest deeper than 256. Checks the thread's budget
// (work_budget.h).
Json ParseJsonRow(std::string_view text);

bool IsNumber(const Json& value);
const char* TypeName(const Json& value);  // "number", "string", "null", …

// One line; bytes that are not UTF-8 are replaced.
std::string DumpJson(const Json& value);
std::string DumpJson(const nlohmann::ordered_json& value);

// A string as it is, anything else as JSON.
std::string TextOrJson(const Json& value);

}  // namespace banyan
