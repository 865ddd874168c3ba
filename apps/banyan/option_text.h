// What options say as text, and what becomes of it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "banyan/error.h"
#include "banyan/job.h"

namespace banyan::app {

// Throws kNotFound naming the option.
std::string ReadOptionFile(const std::string& path, const char* option);
// "@FILE" is the text of a file; anything else is the text itself.
std::string TextOrFile(const std::string& value, const char* option);
// "2/8". Throws kUsage.
void ParseShardOption(const std::string& text, JobOptions& job);
// "text=body", OURS one of `known`. Throws kUsage.
void ParseFieldOptions(const std::vector<std::string>& fields,
                       const std::vector<std::string>& known, JobOptions& job);

template <typename Value>
Value OneOfNames(const std::string& text, const char* option,
                 const std::vector<std::pair<const char*, Value>>& values) {
  std::string names;
  for (const auto& [name, value] : values) {
    if (text == name) return value;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: expected one of {}; found '{}'", option, names, text));
}

}  // namespace banyan::app
