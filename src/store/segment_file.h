// Files of the KV store on disk: written whole under another name, synced and renamed; read block
// by block.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "store/segment_format.h"

namespace banyan {

// Writes the header and the blocks, whose bytes follow one another in `bytes`; places, names and
// checksums of the header's blocks are set. Nothing stands under `path` before all of it is on the
// disk. Throws kIo, and leaves nothing behind.
void WriteSegmentFile(const std::string& path, SegmentHeader& header,
                      std::span<const std::byte> bytes);

class SegmentFile {
 public:
  // Nothing when there is no such file, it cannot be opened, or it is a link or no plain file.
  static std::optional<SegmentFile> Open(const std::string& path);
  ~SegmentFile();
  SegmentFile(SegmentFile&& other) noexcept;
  SegmentFile& operator=(SegmentFile&& other) noexcept;
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;

  // Throws kFormat, kIo.
  SegmentHeader Header() const;
  // False when the bytes cannot be read or are not those that the block's checksum is of.
  // REQUIRES: out has the block's size.
  bool Read(const StoredBlock& block, std::span<std::byte> out) const;
  // A hint to the system: these bytes will be read soon.
  void Expect(std::int64_t offset, std::int64_t bytes) const;

 private:
  SegmentFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_ = -1;
  std::string path_;
};

// Reads up to out.size() bytes at the offset; how many there were. -1: an error, see errno.
std::int64_t ReadAt(int fd, std::int64_t offset, std::span<std::byte> out);

// Makes the folder for nobody else, if it is not there. Throws kIo, also when a link or a file
// stands there.
void MakePrivateFolder(const std::string& folder);

}  // namespace banyan
