// Decisions that took measuring, kept between runs: a small text file of keys and values that hold
// for one machine and one version of what was measured. It only saves time: callers must work with
// any value in it, and a file that cannot be read or written is not an error.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace banyan {

// The decisions of a file's text that hold for `identity`: none when its first line is of another
// format or identity. Lines that are not a key, a tab and a value are left out, and so is a last
// line without an end, which may be torn. The last of several values of a key counts.
std::map<std::string, std::string> ParseDecisions(std::string_view text, std::string_view identity);
// The same the other way round. REQUIRES: no tabs or line ends in any of it.
std::string DecisionText(const std::map<std::string, std::string>& decisions,
                         std::string_view identity);

class DecisionFile {
 public:
  // Keeps nothing.
  DecisionFile() = default;
  // `identity` names everything that the decisions hold for, in one line. Decisions that the file
  // has under another identity are not seen, and dropped at the next Keep. An empty path keeps
  // nothing.
  DecisionFile(std::filesystem::path path, std::string identity);

  std::optional<std::string> Find(const std::string& key) const;
  // Rewrites the file, with what other processes kept meanwhile. REQUIRES: no tabs or line ends.
  void Keep(const std::string& key, const std::string& value);

 private:
  void Read();
  void Write() const;

  std::filesystem::path path_;
  std::string identity_;
  std::map<std::string, std::string> decisions_;
};

}  // namespace banyan
