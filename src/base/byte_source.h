// Bytes from a file or standard input, one after another; gzip and zstd are recognised by their
// first bytes and unpacked on the way. Not here: what the bytes mean.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace banyan {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills as much of `out` as is there now, at least one byte; 0 at the end. Throws kIo when the
  // system refuses, kFormat when packed bytes are damaged or end early.
  virtual size_t Read(std::span<char> out) = 0;
  // Bytes of the file taken so far, as stored: packed ones count packed.
  virtual std::int64_t position() const = 0;
};

// `path` "-" is standard input. A source that waits for a pipe ends within a moment of `cancelled`
// (which may be null) becoming true. Throws kNotFound, kIo, and kUnsupported for a packing that
// this build has no library for.
std::unique_ptr<ByteSource> OpenByteSource(const std::string& path,
                                           const std::atomic<bool>* cancelled = nullptr);

// The same over bytes in memory, which must outlive the source.
std::unique_ptr<ByteSource> ByteSourceOf(std::string_view bytes, const std::string& name);

}  // namespace banyan
