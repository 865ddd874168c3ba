#include "base/byte_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/head_source.h"
#ifdef BANYAN_WITH_ZLIB
#include <zlib.h>
#endif
#ifdef BANYAN_WITH_ZSTD
#include <zstd.h>
#endif

namespace banyan {
namespace {

constexpr size_t kChunkBytes = 1 << 16;

class FileSource : public ByteSource {
 public:
  FileSource(const std::string& path, const std::atomic<bool>* cancelled)
      : name_(path == "-" ? "standard input" : path), cancelled_(cancelled) {
    if (path == "-") {
      fd_ = STDIN_FILENO;
      return;
    }
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) {
      const int reason = errno;
      Throw(reason == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo,
            "{}: cannot open the input: {}", path, std::strerror(reason));
    }
    struct stat status {};
    if (::fstat(fd_, &status) == 0 && S_ISDIR(status.st_mode)) {
      ::close(fd_);
      Throw(ErrorKind::kIo, "{}: expected a file, found a directory", path);
    }
  }
  ~FileSource() override {
    if (fd_ > STDIN_FILENO) ::close(fd_);
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  size_t Read(std::span<char> out) override {
    while (true) {
      if (!WaitForBytes()) return 0;
      const ssize_t got = ::read(fd_, out.data(), out.size());
      if (got >= 0) {
        position_ += got;
        return static_cast<size_t>(got);
      }
      if (errno != EINTR) Throw(ErrorKind::kIo, "{}: cannot read: {}", name_, std::strerror(errno));
    }
  }
  std::int64_t position() const override { return position_; }

 private:
  // False when reading was given up.
  bool WaitForBytes() const {
    constexpr int kMilliseconds = 50;
    while (cancelled_ != nullptr) {
      if (*cancelled_) return false;
      pollfd wanted{fd_, POLLIN, 0};
      if (::poll(&wanted, 1, kMilliseconds) != 0) break;  // there, at its end, or an error to read
    }
    return true;
  }

  std::string name_;
  const std::atomic<bool>* cancelled_;
  int fd_ = -1;
  std::int64_t position_ = 0;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  size_t Read(std::span<char> out) override {
    const size_t count = std::min(out.size(), bytes_.size() - taken_);
    std::memcpy(out.data(), bytes_.data() + taken_, count);
    taken_ += count;
    return count;
  }
  std::int64_t position() const override { return static_cast<std::int64_t>(taken_); }

 private:
  std::string_view bytes_;
  size_t taken_ = 0;
};

#ifdef BANYAN_WITH_ZLIB
// Any number of gzip members, one after another.
class GzipSource : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> source, std::string name)
      : source_(std::move(source)), name_(std::move(name)), packed_(kChunkBytes) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (::inflateInit2(&state_, kGzipOnly) != Z_OK) Throw(ErrorKind::kLimit, "zlib: no memory");
  }
  ~GzipSource() override { ::inflateEnd(&state_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  size_t Read(std::span<char> out) override {
    state_.next_out = reinterpret_cast<Bytef*>(out.data());
    state_.avail_out = static_cast<uInt>(std::min<size_t>(out.size(), 1u << 30));
    const uInt room = state_.avail_out;
    while (state_.avail_out == room) {
      if (state_.avail_in == 0) {
        const size_t got = source_->Read(packed_);
        if (got == 0) {
          if (inside_member_) Throw(ErrorKind::kFormat, "{}: the gzip data ends early", name_);
          return 0;
        }
        state_.next_in = reinterpret_cast<Bytef*>(packed_.data());
        state_.avail_in = static_cast<uInt>(got);
      }
      inside_member_ = true;
      const int result = ::inflate(&state_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        inside_member_ = false;
        ::inflateReset(&state_);
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        Throw(ErrorKind::kFormat, "{}: the gzip data is damaged: {}", name_,
              state_.msg != nullptr ? state_.msg : "unknown reason");
      }
    }
    return room - state_.avail_out;
  }
  std::int64_t position() const override { return source_->position(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::string name_;
  std::vector<char> packed_;
  z_stream state_{};
  bool inside_member_ = false;
};
#endif

#ifdef BANYAN_WITH_ZSTD
class ZstdSource : public ByteSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> source, std::string name)
      : source_(std::move(source)), name_(std::move(name)), packed_(kChunkBytes) {
    state_ = ::ZSTD_createDStream();
    if (state_ == nullptr) Throw(ErrorKind::kLimit, "zstd: no memory");
    in_ = {packed_.data(), 0, 0};
  }
  ~ZstdSource() override { ::ZSTD_freeDStream(state_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  size_t Read(std::span<char> out) override {
    ZSTD_outBuffer produced = {out.data(), out.size(), 0};
    while (produced.pos == 0) {
      if (in_.pos == in_.size && !more_inside_) {
        const size_t got = source_->Read(packed_);
        if (got == 0) {
          if (inside_frame_) Throw(ErrorKind::kFormat, "{}: the zstd data ends early", name_);
          return 0;
        }
        in_ = {packed_.data(), got, 0};
      }
      const size_t left = ::ZSTD_decompressStream(state_, &produced, &in_);
      if (::ZSTD_isError(left)) {
        Throw(ErrorKind::kFormat, "{}: the zstd data is damaged: {}", name_,
              ::ZSTD_getErrorName(left));
      }
      inside_frame_ = left != 0;
      more_inside_ = produced.pos == produced.size && inside_frame_;
    }
    return produced.pos;
  }
  std::int64_t position() const override { return source_->position(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::string name_;
  std::vector<char> packed_;
  ZSTD_DStream* state_ = nullptr;
  ZSTD_inBuffer in_{};
  bool inside_frame_ = false;
  bool more_inside_ = false;  // the library holds bytes that found no room
};
#endif

std::unique_ptr<ByteSource> Unpacked(std::unique_ptr<ByteSource> source, const std::string& name) {
  constexpr size_t kMagicBytes = 6;
  auto peeked = std::make_unique<HeadSource>(std::move(source));
  const std::string_view head = peeked->Head(
      kMagicBytes, [&](std::string_view begin) { return begin.size() >= kMagicBytes; });
  if (head.starts_with("BZh") && head.ends_with("1A")) {  // and what follows: pi, in BCD
    Throw(ErrorKind::kUnsupported,
          "{}: packed by bzip2, which is not read here; unpack it: bunzip2", name);
  }
  if (head.starts_with("\xfd"
                       "7zXZ")) {
    Throw(ErrorKind::kUnsupported, "{}: packed by xz, which is not read here; unpack it: unxz",
          name);
  }
  if (head.starts_with("\x1f\x8b")) {
#ifdef BANYAN_WITH_ZLIB
    return std::make_unique<GzipSource>(std::move(peeked), name);
#else
    Throw(ErrorKind::kUnsupported, "{}: gzip, and this build has no zlib", name);
#endif
  }
  if (head.starts_with("\x28\xb5\x2f\xfd")) {
#ifdef BANYAN_WITH_ZSTD
    return std::make_unique<ZstdSource>(std::move(peeked), name);
#else
    Throw(ErrorKind::kUnsupported, "{}: zstd, and this build has no libzstd", name);
#endif
  }
  return peeked;
}

}  // namespace

std::unique_ptr<ByteSource> OpenByteSource(const std::string& path,
                                           const std::atomic<bool>* cancelled) {
  return Unpacked(std::make_unique<FileSource>(path, cancelled),
                  path == "-" ? "standard input" : path);
}

std::unique_ptr<ByteSource> ByteSourceOf(std::string_view bytes, const std::string& name) {
  return Unpacked(std::make_unique<MemorySource>(bytes), name);
}

}  // namespace banyan
