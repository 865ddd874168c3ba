#include "base/decision_file.h"

#include <unistd.h>

#include <fstream>
#include <system_error>

#include "base/error.h"

namespace banyan {
namespace {

constexpr const char* kFormat = "banyan decisions 1";

bool IsPlain(const std::string& text) { return text.find_first_of("\t\r\n") == std::string::npos; }

}  // namespace

DecisionFile::DecisionFile(std::filesystem::path path, std::string identity)
    : path_(std::move(path)), identity_(std::move(identity)) {
  BANYAN_CHECK(IsPlain(identity_));
  Read();
}

std::optional<std::string> DecisionFile::Find(const std::string& key) const {
  const auto it = decisions_.find(key);
  if (it == decisions_.end()) return std::nullopt;
  return it->second;
}

void DecisionFile::Keep(const std::string& key, const std::string& value) {
  BANYAN_CHECK(IsPlain(key) && IsPlain(value));
  if (path_.empty()) return;
  Read();
  decisions_[key] = value;
  Write();
}

// A line each: format and identity, then keys and values, each pair with a tab between.
void DecisionFile::Read() {
  if (path_.empty()) return;
  std::ifstream file(path_);
  std::string line;
  if (!std::getline(file, line) || line != std::string(kFormat) + "\t" + identity_) return;
  while (std::getline(file, line)) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos || file.eof()) return;  // a torn last line
    decisions_[line.substr(0, tab)] = line.substr(tab + 1);
  }
}

void DecisionFile::Write() const {
  std::error_code failed;
  std::filesystem::create_directories(path_.parent_path(), failed);
  // Whole or not at all: a reader never sees half a file.
  std::filesystem::path fresh = path_;
  fresh += "." + std::to_string(::getpid());
  {
    std::ofstream file(fresh);
    file << kFormat << '\t' << identity_ << '\n';
    for (const auto& [key, value] : decisions_) file << key << '\t' << value << '\n';
    file.close();
    if (!file) failed = std::make_error_code(std::errc::io_error);
  }
  if (!failed) std::filesystem::rename(fresh, path_, failed);
  if (failed) std::filesystem::remove(fresh, failed);
}

}  // namespace banyan
