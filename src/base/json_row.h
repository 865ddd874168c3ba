// JSON of rows: what a person wrote goes through a job as it was written. A number that no double
// or 64-bit integer holds exactly as it stands there is kept as its text.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace banyan {

// Throws kFormat on bad JSON and when arrays and objects nest deeper than 256. Numbers that would
// not be written back as they stand are values for which IsNumber is true and is_number() is not.
Json ParseJsonRow(std::string_view text);

bool IsNumber(const Json& value);
const char* TypeName(const Json& value);  // "number", "string", "null", …

// One line; bytes that are no UTF-8 are replaced.
std::string DumpJson(const Json& value);
std::string DumpJson(const nlohmann::ordered_json& value);

// A string as it is, anything else as JSON.
std::string TextOrJson(const Json& value);

}  // namespace banyan
