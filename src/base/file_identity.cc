#include "base/file_identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace banyan {

std::optional<FileIdentity> IdentityOf(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileIdentity{status.st_dev, status.st_ino};
}

std::optional<FileIdentity> IdentityOf(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return std::nullopt;
  return FileIdentity{status.st_dev, status.st_ino};
}

int OpenFile(const std::string& path, int flags, mode_t mode) {
  const int first = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  if (first < 0 || first > STDERR_FILENO) return first;
  const int higher = ::fcntl(first, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int reason = errno;
  ::close(first);
  errno = reason;
  return higher;
}

}  // namespace banyan
