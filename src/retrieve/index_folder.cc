#include "retrieve/index_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/files.h"
#include "retrieve/document_files.h"

namespace banyan {

namespace fs = std::filesystem;

std::optional<IndexContents> EarlierIndex(const std::string& directory) {
  const std::string path = (fs::path(directory) / kIndexFileName).string();
  if (!fs::exists(path)) return std::nullopt;
  const MappedFile file(path);
  return ReadIndexBytes(file.bytes(), path);
}

std::optional<IndexContents> ReadableIndex(const std::string& directory) {
  try {
    return EarlierIndex(directory);
  } catch (const Error&) {
    return std::nullopt;
  }
}

LockedFolder::LockedFolder(const std::string& directory) : directory_(directory) {
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (failed) {
    Throw(ErrorKind::kIo, "{}: cannot make the folder: {}", directory, failed.message());
  }
  folder_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) {
    Throw(ErrorKind::kIo, "{}: cannot open the folder: {}", directory,
          std::generic_category().message(errno));
  }
  while (::flock(folder_, LOCK_EX) != 0 && errno == EINTR) {
  }
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kIndexFileName) && name != kIndexFileName) fs::remove(entry, none);
  }
}

LockedFolder::~LockedFolder() { ::close(folder_); }

void LockedFolder::ReplaceIndex(const std::string& bytes) const {
  const fs::path target = fs::path(directory_) / kIndexFileName;
  WriteFileAtomically(target.string(), fmt::format("{}.{}", target.string(), ::getpid()), 0644,
                      bytes);
}

}  // namespace banyan
