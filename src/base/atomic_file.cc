// Atomic replacement of files, and the guarded files that commands write (program/fresh_file.h).
#include "base/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "program/fresh_file.h"
#include "program/message_text.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void CannotWriteFile(const std::string& name) {
  Throw(ErrorKind::kIo, "{}: cannot write: {}", name, std::strerror(errno));
}

// False with errno set. Some file systems cannot sync; there is nothing to wait for then.
bool SyncDescriptor(int fd) {
  return ::fsync(fd) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP;
}

bool SyncAndClose(int fd) {
  const bool synced = SyncDescriptor(fd);
  const int reason = errno;
  ::close(fd);
  errno = reason;
  return synced;
}

// A folder that may be written to and not read cannot be synced.
bool SyncFolderOf(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  const int fd = OpenFile(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY);
  return fd < 0 ? errno == EACCES : SyncAndClose(fd);
}

bool SyncPath(const std::string& path) {
  int fd = OpenFile(path, O_RDONLY | O_NOFOLLOW);
  if (fd < 0 && errno == EACCES) fd = OpenFile(path, O_WRONLY | O_NOFOLLOW);
  return fd >= 0 && SyncAndClose(fd);
}

// A file, or a folder with all files and folders in it.
bool SyncTree(const std::string& path) {
  std::error_code failed;
  if (fs::is_directory(path, failed)) {
    for (fs::recursive_directory_iterator it(path, failed), end; !failed && it != end;
         it.increment(failed)) {
      const bool synced = it->is_symlink() || SyncPath(it->path().string());
      if (!synced) return false;
    }
  }
  if (failed) {
    errno = failed.value();
    return false;
  }
  return SyncPath(path);
}

// -1 with errno set. What stood there, perhaps a link that somebody else made, is not written to.
int CreateTemporary(const std::string& path, mode_t mode) {
  constexpr int kCreate = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  const int fd = OpenFile(path, kCreate, mode);
  if (fd >= 0 || errno != EEXIST) return fd;
  ::unlink(path.c_str());
  return OpenFile(path, kCreate, mode);
}

}  // namespace

AtomicFile::AtomicFile(std::string target, std::string temporary, mode_t mode)
    : target_(std::move(target)), temporary_(std::move(temporary)) {
  fd_ = CreateTemporary(temporary_, mode);
  if (fd_ < 0) CannotWriteFile(temporary_);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!committed_) ::unlink(temporary_.c_str());
}

void AtomicFile::SetMode(mode_t mode) {
  if (::fchmod(fd_, mode) != 0) CannotWriteFile(temporary_);
}

void AtomicFile::Write(std::string_view bytes) { WriteAll(fd_, bytes, temporary_); }

void AtomicFile::Commit() {
  if (!SyncDescriptor(fd_)) CannotWriteFile(temporary_);
  CommitUnsynced();
  if (!SyncFolderOf(target_)) CannotWriteFile(target_);
}

void AtomicFile::CommitUnsynced() {
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) CannotWriteFile(target_);
  committed_ = true;
}

int AtomicFile::ReleaseDescriptor() { return std::exchange(fd_, -1); }

void WriteFileAtomically(const std::string& target, const std::string& temporary, mode_t mode,
                         std::string_view bytes) {
  AtomicFile file(target, temporary, mode);
  file.Write(bytes);
  file.Commit();
}

bool ReplaceFile(const std::string& from, const std::string& to) {
  return SyncTree(from) && ::rename(from.c_str(), to.c_str()) == 0 && SyncFolderOf(to);
}

std::string WhatIsThere(const std::string& path) {
  struct stat status {};
  if (path == "-" || ::stat(path.c_str(), &status) != 0) return {};
  if (!S_ISREG(status.st_mode) || status.st_size == 0) return {};
  std::tm parts{};
  ::localtime_r(&status.st_mtime, &parts);
  char minute[32];
  std::strftime(minute, sizeof(minute), "%Y-%m-%d %H:%M", &parts);
  return fmt::format("{} of {}", SizeText(status.st_size), minute);
}

void CheckWritable(const std::string& path, const std::string& option) {
  if (path.empty() || path == "-") return;
  const auto refuse = [&](const std::string& why) {
    Throw(ErrorKind::kIo, "{}: {}: cannot write the file: {}", option, path, why);
  };
  std::error_code none, unknown;
  const fs::path real = fs::weakly_canonical(path, unknown);
  const fs::path file = unknown ? fs::path(path) : real;
  if (fs::is_directory(file, none)) refuse("it is a folder");
  const bool exists = fs::exists(file, none);
  if (exists && ::access(file.c_str(), W_OK) != 0) refuse("permission denied");
  if (exists && !fs::is_regular_file(file, none)) return;  // devices are written as they are
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, none)) refuse("no such folder " + folder.string());
  if (::access(folder.c_str(), W_OK) != 0) refuse("permission denied");
}

void GuardOutput(const std::string& path, const std::string& option, bool overwrite) {
  CheckWritable(path, option);
  if (overwrite) return;
  const std::string there = WhatIsThere(path);
  if (there.empty()) return;
  Throw(ErrorKind::kUsage,
        "{}: is there already ({}); give {} another name, or replace the file with --overwrite",
        path, there, option);
}

FreshFile::FreshFile(const std::string& path, const std::string& option, bool overwrite)
    : option_(option), path_(path), target_(path) {
  GuardOutput(path, option, overwrite);
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) CannotWrite(EISDIR);
  if (exists && S_ISREG(status.st_mode) && ::access(path.c_str(), W_OK) != 0) CannotWrite(errno);
  if (!exists || S_ISREG(status.st_mode)) {
    std::error_code none;
    const fs::path real = fs::weakly_canonical(path, none);
    if (!none) target_ = real.string();
    const std::string part = fmt::format("{}.{}.part", target_, ::getpid());
    // Whoever could not read the old file cannot read the new one, at any moment.
    const int fd = CreateTemporary(part, exists ? 0600 : 0666);
    if (fd < 0) CannotWrite(errno);
    ::close(fd);
    part_ = part;
  }
  errno = 0;
  stream_.open(part_.empty() ? path_ : part_, std::ios::binary | std::ios::trunc);
  if (!stream_) {
    const int reason = errno;
    if (!part_.empty()) ::unlink(part_.c_str());
    CannotWrite(reason);
  }
  if (exists && !part_.empty()) ::chmod(part_.c_str(), status.st_mode & 07777);
}

FreshFile::~FreshFile() {
  if (part_.empty()) return;
  stream_.close();
  ::unlink(part_.c_str());
}

void FreshFile::CannotWrite(int reason) const {
  Throw(ErrorKind::kIo, "{}: {}: cannot write the file{}{}", option_, path_,
        reason == 0 ? "" : ": ", reason == 0 ? "" : std::strerror(reason));
}

void FreshFile::Finish() {
  errno = 0;
  stream_.close();
  if (!stream_) CannotWrite(errno);
  if (part_.empty()) return;
  if (!ReplaceFile(part_, target_)) CannotWrite(errno);
  part_.clear();
}

void WriteFreshFile(const std::string& path, const std::string& option, bool overwrite,
                    const std::string& text) {
  FreshFile file(path, option, overwrite);
  file.stream() << text;
  file.Finish();
}

}  // namespace banyan
