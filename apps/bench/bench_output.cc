#include "bench_output.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "program/fresh_file.h"

namespace banyan::app {

void WriteJson(const std::string& file, const nlohmann::ordered_json& json) {
  if (file == "-") {
    std::cout << json.dump(1) << std::endl;
    return;
  }
  WriteFreshFile(file, "--json", /*overwrite=*/true, json.dump(1) + "\n");
}

}  // namespace banyan::app
