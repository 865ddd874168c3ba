// Rows of a batch's output.
#pragma once

#include <string>

#include "base/json.h"
#include "serve/api_error.h"

namespace banyan {

// The batch was stopped while a line was answered: it is answered again later.
struct LineStopped {};

// Of a line of the input; empty: it has none, or is no JSON.
std::string CustomIdOf(const std::string& line);
nlohmann::ordered_json BatchRow(const std::string& custom_id, int status,
                                nlohmann::ordered_json body);
nlohmann::ordered_json BatchErrorRow(const std::string& custom_id, const ApiError& error);

}  // namespace banyan
