#include "option_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
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

std::string TextOrFile(const std::string& value, const char* option) {
  return value.starts_with('@') ? ReadOptionFile(value.substr(1), option) : value;
}

void ParseShardOption(const std::string& text, JobOptions& job) {
  int read = 0;
  const bool parsed = std::sscanf(text.c_str(), "%d/%d%n", &job.shard, &job.shards, &read) == 2 &&
                      static_cast<size_t>(read) == text.size();
  if (!parsed) job.shard = 0;
  CheckShard(job, text, "--shard");
}

void ParseFieldOptions(const std::vector<std::string>& fields,
                       const std::vector<std::string>& known, JobOptions& job) {
  for (const std::string& field : fields) {
    const size_t equals = field.find('=');
    const std::string ours = field.substr(0, equals);
    const bool valid = equals != std::string::npos && equals + 1 < field.size() &&
                       std::find(known.begin(), known.end(), ours) != known.end();
    if (!valid) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("--field: expected OURS=THEIRS with OURS one of {}; found '{}'",
                              fmt::join(known, ", "), field));
    }
    job.fields[ours] = field.substr(equals + 1);
  }
}

}  // namespace banyan::app
