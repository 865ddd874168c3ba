// Files that clients upload, in a folder that outlives the server: FILE, and FILE.json with its
// description. A tenant sees only its own files and has a limit of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "serve/http/http.h"

namespace banyan {

class FileStore {
 public:
  // Makes the folder and locks it; what an upload that was cut off left there goes. `most_bytes`:
  // of a tenant, with everything that Count is told. `most_files`: likewise, since a list has them
  // all. Throws kIo, also when another server has it.
  FileStore(const std::filesystem::path& directory, std::int64_t most_bytes,
            std::int64_t most_files = 10'000);
  ~FileStore();
  FileStore(const FileStore&) = delete;
  FileStore& operator=(const FileStore&) = delete;

  // Bodies of replies. Throw ApiError.
  std::string Upload(const HttpRequest& request);
  std::string List(const HttpRequest& request) const;
  std::string Describe(const std::string& tenant, const std::string& id) const;
  std::string Delete(const std::string& tenant, const std::string& id);
  // The bytes, piece by piece.
  void Send(const std::string& tenant, const std::string& id, HttpReply& reply) const;

  struct Entry {
    std::string tenant, name, purpose;
  };
  // Keeps a client's bytes; returns their id. Throws ApiError 413 when the tenant has no room, 503
  // when the disk refuses.
  std::string Keep(const Entry& entry, std::string_view bytes);
  // Takes a file of the server's own making over, whatever the limit says: results are never lost.
  // It counts from then on. Throws kIo, and the file stays where it is.
  std::string Adopt(const Entry& entry, const std::filesystem::path& file);
  std::filesystem::path PathOf(const std::string& tenant, const std::string& id) const;
  const std::filesystem::path& directory() const { return directory_; }

  // What else is on the disk for a tenant came or went. Throws ApiError 413 when it is too much;
  // `anyway`: never.
  void Count(const std::string& tenant, std::int64_t bytes, bool anyway);
  // Throws ApiError 413 when the tenant cannot have so many more files.
  void CheckCount(const std::string& tenant, std::int64_t more) const;
  std::int64_t used(const std::string& tenant) const;

 private:
  struct Known {
    nlohmann::ordered_json json;
    std::int64_t cost = 0;  // bytes on the disk
  };
  void ReadFolder();
  Known Find(const std::string& tenant, const std::string& id) const;  // REQUIRES: mutex_
  // With those that are being written. REQUIRES: mutex_
  std::int64_t FilesOf(const std::string& tenant) const;
  void CheckCountLocked(const std::string& tenant, std::int64_t more) const;     // REQUIRES: mutex_
  void CountLocked(const std::string& tenant, std::int64_t bytes, bool anyway);  // REQUIRES: mutex_
  // Enters a file that is in its place.
  void Enter(const std::string& id, nlohmann::ordered_json json, std::int64_t cost);

  const std::int64_t most_bytes_, most_files_;
  std::filesystem::path directory_;
  int lock_ = -1;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, Known> files_;
  std::map<std::string, std::int64_t> used_;           // bytes by tenant
  std::map<std::string, std::int64_t> being_written_;  // files by tenant, not in files_ yet
};

// One page of a list, latest first: ?after=ID&limit=N.
struct ListPage {
  std::vector<std::string> ids;
  bool more = false;
  std::string Ending() const;  // of {"object":"list","data":[…: `],"first_id":…}`
};
struct ListedPlace {
  std::int64_t created = 0;
  std::string id;
  auto operator<=>(const ListedPlace&) const = default;
};
struct ListLimits {
  int usual, most;
};
ListPage PageOf(const HttpRequest& request, std::vector<ListedPlace> all, const ListLimits& limits);

// Writes all or nothing, synced to disk and readable by the owner only. Throws kIo.
void WriteWholeFile(const std::filesystem::path& path, std::string_view bytes);
std::string ReadWholeFile(const std::filesystem::path& path);  // throws kIo
// What a file with so many bytes takes on a disk, and in a server's memory.
std::int64_t CostOfFile(std::uintmax_t bytes);

}  // namespace banyan
