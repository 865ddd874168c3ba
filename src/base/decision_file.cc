// The text format of kept decisions, and the file that holds them.
#include "base/decision_file.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <system_error>

#include "base/atomic_file.h"
#include "base/error.h"

namespace banyan {
namespace {

constexpr const char* kFormat = "banyan decisions 1";

bool IsPlain(std::string_view text) {
  return text.find_first_of("\t\r\n") == std::string_view::npos;
}

}  // namespace

// A line each: format and identity, then keys and values, each pair with a tab between.
std::map<std::string, std::string> ParseDecisions(std::string_view text,
                                                  std::string_view identity) {
  std::map<std::string, std::string> decisions;
  const std::string head = std::string(kFormat) + "\t" + std::string(identity) + "\n";
  if (!text.starts_with(head)) return decisions;
  text.remove_prefix(head.size());
  for (size_t end; (end = text.find('\n')) != std::string_view::npos;) {
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const size_t tab = line.find('\t');
    if (tab == std::string_view::npos || tab == 0) continue;
    const std::string_view value = line.substr(tab + 1);
    if (IsPlain(value)) decisions[std::string(line.substr(0, tab))] = value;
  }
  return decisions;
}

std::string DecisionText(const std::map<std::string, std::string>& decisions,
                         std::string_view identity) {
  std::string text = std::string(kFormat) + "\t" + std::string(identity) + "\n";
  for (const auto& [key, value] : decisions) text += key + "\t" + value + "\n";
  return text;
}

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

void DecisionFile::Read() {
  if (path_.empty()) return;
  std::ifstream file(path_);
  std::ostringstream text;
  text << file.rdbuf();  // nothing where there is no file
  for (auto& [key, value] : ParseDecisions(text.str(), identity_)) decisions_[key] = value;
}

void DecisionFile::Write() const {
  std::error_code failed;
  std::filesystem::create_directories(path_.parent_path(), failed);
  try {
    // A reader never sees half a file.
    AtomicFile file(path_.string(), fmt::format("{}.{}", path_.string(), ::getpid()), 0666);
    file.Write(DecisionText(decisions_, identity_));
    file.CommitUnsynced();
  } catch (const Error&) {  // the next process measures again
  }
}

}  // namespace banyan
