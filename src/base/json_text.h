// Untrusted JSON text: syntax errors, limits on the memory of what is built, and single values
// without building the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/json.h"

namespace banyan {

// Memory is counted beside that of strings: 32 bytes for a value, 64 more for a list or an object
// and for a name.
struct JsonLimits {
  size_t most_bytes = SIZE_MAX;
  size_t most_names =
      SIZE_MAX;  // of one object: where their order is kept, each is sought among all
};

// As ParseJsonRow without limits; throws kLimit beyond them.
Json ParseJsonRow(std::string_view text, const JsonLimits& limits);

// The first byte at which the text is not JSON; its size when something is missing at the end. A
// number of more than 4096 bytes is none. Nothing: it is JSON, or nests deeper than 256 before an
// error. Takes no memory; heeds the thread's budget.
std::optional<size_t> FirstJsonError(std::string_view text);

// The text of a value inside a JSON text; the way there: "response_format", "json_schema". Of
// several with one name the last. Empty: there is none. REQUIRES: the text is valid JSON.
std::string_view JsonValueText(std::string_view json, std::span<const char* const> way);

}  // namespace banyan
