// A file that is appended to, with checkpoints up to which it is on the disk. Compressed files are
// whole gzip members or zstd frames between two checkpoints, so a file cut at one of them is valid.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace banyan {

enum class Packing { kNone, kGzip, kZstd };
// By the name's end: .gz, .zst.
Packing PackingOf(std::string_view path);

class OutputFile {
 public:
  // Of a file that is there, the bytes that this hash is of stay; the others are cut off.
  using Kept = ContentHash;
  // "-" is standard output. Throws kIo when it cannot be made, kUnsupported for a packing that this
  // build has no library for.
  OutputFile(const std::string& path, Packing packing, const Kept& kept = {});
  // A named pipe is waited for until somebody reads it, or `stop` (may be empty) says so: then it
  // throws kIo.
  OutputFile(const std::string& path, Packing packing, const std::function<bool()>& stop);
  // Only one that is not there yet, and no link: for names of our own.
  static std::unique_ptr<OutputFile> Create(const std::string& path, Packing packing);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void Append(std::string_view bytes);
  // Hands everything to the system; readers of the file see it.
  void Flush();
  // Hands everything to the disk and returns the file's length. What comes later starts a new
  // member or frame.
  std::int64_t Checkpoint();

  // Of all bytes that the file has after Flush or Checkpoint.
  const ContentHash& content() const { return content_; }

 private:
  class Packer;
  class GzipPacker;
  class ZstdPacker;
  OutputFile(const std::string& path, Packing packing, const Kept& kept, int flags,
             const std::function<bool()>& stop);
  void Write();  // buffer_ to the file

  std::string path_;
  int fd_ = -1;
  ContentHash content_;             // of what was written
  std::string buffer_;              // packed bytes to write
  std::unique_ptr<Packer> packer_;  // null: bytes go as they are
};

}  // namespace banyan
