// JSON by nlohmann-json, with our error type. Include only where JSON is really handled: the header
// is heavy to compile.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace banyan {

using Json = nlohmann::json;

// `what` names the source in the message ("FILE", "FILE line 7"). Throws kFormat on bad JSON and
// when arrays and objects nest deeper than 256.
Json ParseJson(std::string_view text, const std::string& what);

}  // namespace banyan
