// Files of the server's own folder, written whole.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/file_identity.h"
#include "base/output_file.h"
#include "serve/file_store.h"

namespace banyan {

namespace fs = std::filesystem;

bool IsPlainId(std::string_view id) {
  return !id.empty() && id.size() <= 64 && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

std::int64_t CostOfFile(std::uintmax_t bytes) {
  constexpr std::int64_t kEach = 4096;  // a block of the disk at least, and its entries
  return static_cast<std::int64_t>(bytes) + kEach;
}

void SyncPath(const fs::path& path) {
  const int descriptor = OpenFile(path.string(), O_RDONLY);
  if (descriptor < 0) Throw(ErrorKind::kIo, "{}: {}", path.string(), std::strerror(errno));
  const int failed = ::fsync(descriptor) != 0 && errno != EINVAL ? errno : 0;
  ::close(descriptor);
  if (failed != 0) Throw(ErrorKind::kIo, "{}: {}", path.string(), std::strerror(failed));
}

void WriteWholeFile(const fs::path& path, std::string_view bytes) {
  const std::string part = path.string() + ".part";
  const int descriptor = OpenFile(part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
  if (descriptor < 0) Throw(ErrorKind::kIo, "{}: {}", part, std::strerror(errno));
  try {
    WriteAll(descriptor, bytes, part);
    if (::fsync(descriptor) != 0) Throw(ErrorKind::kIo, "{}: {}", part, std::strerror(errno));
    if (::rename(part.c_str(), path.c_str()) != 0) {
      Throw(ErrorKind::kIo, "{}: {}", path.string(), std::strerror(errno));
    }
  } catch (...) {
    ::close(descriptor);
    ::unlink(part.c_str());
    throw;
  }
  ::close(descriptor);
  SyncPath(path.parent_path());
}

std::string ReadWholeFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) Throw(ErrorKind::kIo, "{}: cannot read the file", path.string());
  return bytes;
}

}  // namespace banyan
