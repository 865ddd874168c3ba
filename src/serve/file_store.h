// Files that clients leave with the server, in a folder that outlives it: FILE and FILE.json beside
// it with what is known of it. Tenants see their own alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

#include "base/json.h"
#include "serve/http.h"

namespace banyan {

class FileStore {
 public:
  // Makes the folder. Throws kIo.
  explicit FileStore(const std::filesystem::path& directory);

  // Bodies of replies. Throw ApiError.
  std::string Upload(const HttpRequest& request);
  std::string List(const HttpRequest& request) const;
  std::string Describe(const std::string& tenant, const std::string& id) const;
  std::string Delete(const std::string& tenant, const std::string& id);
  std::string Content(const std::string& tenant, const std::string& id) const;

  // Keeps a file of the server's own making; returns its id.
  std::string Keep(const std::string& tenant, const std::string& name, const std::string& purpose,
                   std::string_view bytes);
  std::filesystem::path PathOf(const std::string& tenant, const std::string& id) const;
  const std::filesystem::path& directory() const { return directory_; }

 private:
  nlohmann::ordered_json Known(const std::string& tenant, const std::string& id) const;

  std::filesystem::path directory_;
};

// Writes all or nothing, and it is on the disk afterwards. Throws kIo.
void WriteWholeFile(const std::filesystem::path& path, std::string_view bytes);
std::string ReadWholeFile(const std::filesystem::path& path);  // throws kIo
// Whether it is a name that the server itself gives: no path, no dots.
bool IsPlainId(std::string_view id);

}  // namespace banyan
