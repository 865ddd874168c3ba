// Whether an index is still what its documents are: files compared by their bytes.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "retrieve/index_file.h"

namespace banyan {

// What was found of files before. A file is read again when its size, its times or the file itself
// are others.
class IndexedFiles {
 public:
  // `directory` is the index's.
  IndexedFiles(std::string directory, std::vector<IndexedFile> files,
               std::vector<std::string> inputs);

  const IndexedFile& at(size_t file) const { return files_.at(file); }
  // Any thread.
  SourceState StateOf(size_t file) const;
  IndexChanges Changes() const;

 private:
  // Device, inode, bytes, and nanoseconds of the last change of contents and of anything.
  using Signature =
      std::tuple<std::uint64_t, std::uint64_t, std::int64_t, std::int64_t, std::int64_t>;
  enum class Seen { kSame, kChanged, kUnreadable, kDocuments, kNoDocuments };
  struct Known {
    Signature signature;
    Seen seen;
  };

  // `hash` of null: whether it has documents is asked.
  Seen Look(const std::string& place, const Digest* hash) const;
  std::vector<std::string> NewFiles() const;

  const std::string directory_;
  const std::vector<IndexedFile> files_;
  const std::vector<std::string> inputs_;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::map<std::string, Known> known_;
};

}  // namespace banyan
