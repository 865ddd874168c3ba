// Mapped files, whole files as text, descriptors, the cache directory and files embedded in the
// binary. Files are written by atomic_file.h and output_file.h.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace banyan {

// A file mapped read-only into memory. The bytes stay valid while the object lives.
class MappedFile {
 public:
  // Throws kNotFound when there is no such regular file, kIo when it cannot be mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Releases the memory of the pages that lie within `part`; a part outside of bytes() is ignored.
  // A later read fetches them from the file again.
  void Forget(std::span<const std::byte> part) const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;  // null for an empty file
  size_t size_ = 0;
};

// Hints that these bytes of a mapping will be read soon, so that the system fetches them.
void ReadAhead(std::span<const std::byte> bytes);

// The whole file as text; throws kLimit when it is larger than `max_bytes`.
std::string ReadTextFile(const std::filesystem::path& path, size_t max_bytes);

// Which file it is, whatever it is called.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

// Links are followed; nothing when there is no such file.
std::optional<FileIdentity> IdentityOf(const std::string& path);
std::optional<FileIdentity> IdentityOf(int descriptor);

// Like open(2) with O_CLOEXEC, but never returns 0, 1 or 2, even where a standard stream is closed:
// messages to stderr must not land in a file. -1 with errno set when it fails.
int OpenFile(const std::string& path, int flags, mode_t mode = 0);

// Writes everything to the descriptor. Throws kIo with the system's reason.
void WriteAll(int fd, std::string_view bytes, const std::string& name);

// Where disposable files are kept: BANYAN_CACHE, else XDG_CACHE_HOME/banyan, else ~/.cache/banyan.
// Does not create it; empty when none of these is set.
std::filesystem::path CacheDirectory();

// A file that is part of the binary: cmake/EmbedFiles.cmake writes lists of them at build time.
struct EmbeddedFile {
  std::string_view name;  // without folders: "page.css"
  std::string_view bytes;
};

}  // namespace banyan
