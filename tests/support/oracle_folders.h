// Where tests find values that other software computed: tests/oracles of this repository, which
// must be there, and ../shared/golden, a larger collection of the same format, where it exists.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/temp_directory.h"

namespace banyan::testing_support {

inline const std::filesystem::path kOwnOracles = BANYAN_SOURCE_DIR "/tests/oracles";
inline const std::filesystem::path kSharedOracles = BANYAN_GOLDEN_DIR;

inline bool IsSharedOracle(const std::filesystem::path& path) {
  return path.string().starts_with(kSharedOracles.string());
}

// The folders named `group`. The test fails without the repository's own.
inline std::vector<std::filesystem::path> OracleFolders(const std::string& group) {
  EXPECT_TRUE(std::filesystem::exists(kOwnOracles / group)) << kOwnOracles / group << " is missing";
  std::vector<std::filesystem::path> folders;
  for (const std::filesystem::path& root : {kOwnOracles, kSharedOracles}) {
    if (std::filesystem::exists(root / group)) folders.push_back(root / group);
  }
  return folders;
}

// What the folders named `group` hold, sorted: subfolders with a file golden.json, or files with
// this extension.
inline std::vector<std::filesystem::path> OraclesOf(const std::string& group,
                                                    const std::string& extension = "") {
  std::vector<std::filesystem::path> found;
  for (const std::filesystem::path& folder : OracleFolders(group)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const bool wanted = extension.empty() ? std::filesystem::exists(entry.path() / "golden.json")
                                            : entry.path().extension() == extension;
      if (wanted) found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  EXPECT_FALSE(found.empty()) << "no oracles in " << kOwnOracles / group;
  return found;
}

// Calls use(folder with tokenizer.json, file of expected ids) for the tokenizer `name` of the
// repository, then for the real one of that name where ../shared has its archive.
template <class Use>
void ForEachTokenizer(const std::string& name, const Use& use) {
  ASSERT_TRUE(std::filesystem::exists(kOwnOracles / "tokenizers" / name));
  use(kOwnOracles / "tokenizers" / name, kOwnOracles / "tokenizers" / (name + ".json"));
  const std::filesystem::path archive = kSharedOracles / "../tokenizers" / (name + ".tgz");
  if (!std::filesystem::exists(archive)) return;
  const TempDirectory folder;
  const std::string unpack =
      "tar xzf '" + archive.string() + "' -C '" + folder.path().string() + "'";
  ASSERT_EQ(std::system(unpack.c_str()), 0);
  use(folder.path(), kSharedOracles / "tokenizers" / (name + ".json"));
}

}  // namespace banyan::testing_support
