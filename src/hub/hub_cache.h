// The hub's own cache layout, which other tools share:
//   models--OWNER--NAME/refs/REVISION          the commit that a revision was
//   models--OWNER--NAME/snapshots/COMMIT/PATH  links to blobs
//   models--OWNER--NAME/blobs/ETAG             the bytes
//   .locks/models--OWNER--NAME/ETAG.lock       held while a blob is written
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hub/file_list.h"
#include "hub/hub_name.h"

namespace banyan {

// The environment's variable; empty where there is none.
std::string EnvironmentText(const char* name);

// HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub.
std::filesystem::path HuggingFaceCacheDirectory();
// HF_HOME, else ~/.cache/huggingface.
std::filesystem::path HuggingFaceHome();

class HubCache {
 public:
  // Of one repository; makes nothing.
  explicit HubCache(const std::string& repository,
                    std::filesystem::path root = HuggingFaceCacheDirectory());

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path Blob(const std::string& etag) const { return folder_ / "blobs" / etag; }
  std::filesystem::path Snapshot(const std::string& commit) const {
    return folder_ / "snapshots" / commit;
  }

  // The snapshot of a revision or of a commit (7 digits or more); of "main" without a reference the
  // only one. Nothing when the cache has none. Throws kFormat for a damaged reference.
  std::optional<std::filesystem::path> FindSnapshot(const std::string& revision) const;

  // Links snapshots/COMMIT/PATH to the blob, whatever was there. Throws kIo.
  void Link(const std::string& commit, const HubFile& file) const;
  // Removes the links to these files of a snapshot, and blobs that no snapshot has any more. Bytes
  // that became free. Throws kIo.
  std::int64_t RemoveFiles(const std::filesystem::path& snapshot,
                           const std::vector<std::string>& paths) const;
  // Removes all of the repository. Throws kIo.
  std::int64_t RemoveAll() const;
  // Throws kIo.
  void WriteReference(const std::string& revision, const std::string& commit) const;

 private:
  std::filesystem::path root_, folder_;
  std::string name_;  // models--OWNER--NAME
  friend class BlobLock;
};

// A blob that this process alone writes, whichever tool else shares the cache.
class BlobLock {
 public:
  // Waits for another process; `waiting` is called before that, and again a few times a second; it
  // may throw. Throws kIo.
  BlobLock(const HubCache& cache, const std::string& etag, const std::function<void()>& waiting);
  ~BlobLock();
  BlobLock(const BlobLock&) = delete;
  BlobLock& operator=(const BlobLock&) = delete;

 private:
  int fd_ = -1;
};

// Names of repositories that the cache has, "OWNER/NAME", sorted.
std::vector<std::string> CachedRepositories();

// Of all regular files; links are not followed.
std::int64_t BytesBelow(const std::filesystem::path& folder);

// Makes a folder and those above it. Throws kIo.
void MakeFolders(const std::filesystem::path& folder);

}  // namespace banyan
