// Figures for machines.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace banyan::app {

// To the file, which `bench` has guarded, or to stdout when it is "-". Throws kIo.
void WriteJson(const std::string& file, const nlohmann::ordered_json& json);

}  // namespace banyan::app
