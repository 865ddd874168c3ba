// A file mapped read-only into memory. The bytes stay valid while the object lives.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace banyan {

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

  // Gives back the memory of the pages that lie within `part`, which is ignored unless it lies
  // within bytes(). Who reads them again gets them from the file again.
  void Forget(std::span<const std::byte> part) const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;  // null for an empty file
  size_t size_ = 0;
};

// Asks for the bytes of a mapping, which will be read soon, to be fetched meanwhile. A hint.
void ReadAhead(std::span<const std::byte> bytes);

// The whole file as text; throws kLimit when it is larger than `max_bytes`.
std::string ReadTextFile(const std::filesystem::path& path, size_t max_bytes);

}  // namespace banyan
