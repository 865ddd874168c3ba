// The folder of an index: read, and replaced as a whole.
#pragma once

#include <optional>
#include <string>

#include "retrieve/index_file.h"

namespace banyan {

// What stands in the folder; nothing where there is no index. Throws kFormat.
std::optional<IndexContents> EarlierIndex(const std::string& directory);
// The same, or nothing where it cannot be read.
std::optional<IndexContents> ReadableIndex(const std::string& directory);

// A folder, made if need be, that others wait for while one process makes the index in it. What a
// process that was killed left half written is removed. Throws kIo.
class LockedFolder {
 public:
  explicit LockedFolder(const std::string& directory);
  ~LockedFolder();
  LockedFolder(const LockedFolder&) = delete;
  LockedFolder& operator=(const LockedFolder&) = delete;

  const std::string& path() const { return directory_; }
  // Whole or not at all: whoever opens the index sees the old one or the new one. Throws kIo.
  void ReplaceIndex(const std::string& bytes) const;

 private:
  std::string directory_;
  int folder_ = -1;
};

}  // namespace banyan
