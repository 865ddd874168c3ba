// What the hub says of a repository: its commit, its files, its licence. The text comes from
// outside and is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace banyan {

struct HubFile {
  std::string path;  // IsPlainPath
  std::int64_t bytes = 0;
  std::string etag;         // name of its blob: the SHA-256 of a large file, else git's own hash
  bool has_sha256 = false;  // the etag is one
};

struct HubRepository {
  std::string commit;  // 40 hexadecimal digits
  std::vector<HubFile> files;
  std::string licence;       // as the card names it; empty: it does not
  std::string licence_link;  // where it is to be read
  bool gated = false;        // who wants it accepts conditions first

  const HubFile* Find(std::string_view path) const;  // null: there is none
};

// More is no repository of a model.
inline constexpr size_t kMostListBytes = 16u << 20, kMostListFiles = 100'000;

// The name that git gives a file of these bytes: 40 lower-case hexadecimal digits (SHA-1, which
// detects damage and is no defence); empty where the system forbids that.
std::string GitBlobHash(std::span<const std::byte> bytes);

// The answer of /api/models/OWNER/NAME/revision/REVISION?blobs=true. Throws kFormat, and kLimit for
// more than the above; `where` names the source.
HubRepository ParseFileList(std::string_view json, const std::string& where);

}  // namespace banyan
