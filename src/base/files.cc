// Mapped files, descriptors and the cache directory.
#include "base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace banyan {

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path.string()) {
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const ErrorKind kind = errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo;
    Throw(kind, "{}: cannot open: {}", path_, std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    Throw(ErrorKind::kNotFound, "{}: expected a regular file", path_);
  }
  size_ = static_cast<size_t>(status.st_size);
  if (size_ > 0) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      const int error = errno;
      ::close(fd);
      Throw(ErrorKind::kIo, "{}: cannot map {} bytes: {}", path_, size_, std::strerror(error));
    }
    data_ = static_cast<const std::byte*>(address);
  }
  ::close(fd);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::Forget(std::span<const std::byte> part) const {
  if (part.data() < data_ || part.data() + part.size() > data_ + size_) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(part.data()) + part.size()) / page * page;
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void ReadAhead(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size();
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

std::string ReadTextFile(const std::filesystem::path& path, size_t max_bytes) {
  MappedFile file(path);
  const auto bytes = file.bytes();
  if (bytes.size() > max_bytes) {
    Throw(ErrorKind::kLimit, "{}: {} bytes, expected at most {}", path.string(), bytes.size(),
          max_bytes);
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

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

void WriteAll(int fd, std::string_view bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      Throw(ErrorKind::kIo, "{}: cannot write: {}", name, std::strerror(errno));
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

std::filesystem::path CacheDirectory() {
  const auto value = [](const char* name) -> std::filesystem::path {
    const char* found = std::getenv(name);
    return found == nullptr ? "" : found;
  };
  if (const auto own = value("BANYAN_CACHE"); !own.empty()) return own;
  if (const auto xdg = value("XDG_CACHE_HOME"); !xdg.empty()) return xdg / "banyan";
  if (const auto home = value("HOME"); !home.empty()) return home / ".cache" / "banyan";
  return {};
}

}  // namespace banyan
