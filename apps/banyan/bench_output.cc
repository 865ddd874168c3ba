#include "bench_output.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "banyan/error.h"

namespace banyan::app {

void WriteJson(const std::string& file, const nlohmann::ordered_json& json) {
  if (file == "-") {
    std::cout << json.dump(1) << std::endl;
    return;
  }
  std::ofstream out(file);
  out << json.dump(1) << "\n";
  out.close();
  if (!out) throw Error(ErrorKind::kIo, fmt::format("{}: cannot write", file));
}

}  // namespace banyan::app
