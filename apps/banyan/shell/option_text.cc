#include "shell/option_text.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

namespace banyan::app {

std::string ReadOptionFile(const std::string& path, const char* option) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) {
    throw Error(ErrorKind::kNotFound, fmt::format("{}: {}: cannot read the file", option, path));
  }
  return text.str();
}

}  // namespace banyan::app
