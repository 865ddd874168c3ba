// Options of a table (program/option_table.h) in the body of a request, and what the description of
// the API says of them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "program/option_facts.h"
#include "program/serve.h"
#include "serve/parameters.h"

namespace banyan {

// Sets every option that the body has. Throws ApiError naming the field for a value of another type
// or out of range, and for two names of one option.
void ReadOptions(Parameters& parameters, std::string_view body, const ServeOptions& server,
                 const BoundOptions& options);

// The property of an option in a JSON Schema.
nlohmann::ordered_json OptionSchema(const OptionFacts& facts);

// openapi.json with the properties of every schema that says "x-banyan-options": TABLE.
std::string FilledOpenApi(std::string_view openapi);

}  // namespace banyan
