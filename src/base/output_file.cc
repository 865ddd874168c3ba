// Appending to plain, gzip and zstd files.
#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#ifdef BANYAN_WITH_ZLIB
#include <zlib.h>
#endif
#ifdef BANYAN_WITH_ZSTD
#include <zstd.h>
#endif

namespace banyan {

Packing PackingOf(std::string_view path) {
  if (path.ends_with(".gz")) return Packing::kGzip;
  if (path.ends_with(".zst")) return Packing::kZstd;
  return Packing::kNone;
}

// Bytes in, packed bytes appended to a string.
class OutputFile::Packer {
 public:
  virtual ~Packer() = default;
  virtual void Pack(std::string_view bytes, std::string& out) = 0;
  virtual void Flush(std::string& out) = 0;
  virtual void End(std::string& out) = 0;  // of the member or frame; nothing when none is open
};

#ifdef BANYAN_WITH_ZLIB
class OutputFile::GzipPacker : public Packer {
 public:
  GzipPacker() {
    constexpr int kGzip = 16 + MAX_WBITS;
    constexpr int kMemoryLevel = 8;  // zlib's own default
    if (::deflateInit2(&state_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, kMemoryLevel,
                       Z_DEFAULT_STRATEGY) != Z_OK) {
      Throw(ErrorKind::kLimit, "zlib: no memory");
    }
  }
  ~GzipPacker() override { ::deflateEnd(&state_); }
  GzipPacker(const GzipPacker&) = delete;
  GzipPacker& operator=(const GzipPacker&) = delete;

  void Pack(std::string_view bytes, std::string& out) override {
    open_ = open_ || !bytes.empty();
    while (!bytes.empty()) {
      const std::string_view part = bytes.substr(0, 1u << 30);
      state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
      state_.avail_in = static_cast<uInt>(part.size());
      Run(Z_NO_FLUSH, out);
      bytes.remove_prefix(part.size());
    }
  }
  void Flush(std::string& out) override {
    if (open_) Run(Z_SYNC_FLUSH, out);
  }
  void End(std::string& out) override {
    if (!open_) return;
    Run(Z_FINISH, out);
    ::deflateReset(&state_);
    open_ = false;
  }

 private:
  void Run(int mode, std::string& out) {
    char chunk[1 << 14];
    do {
      state_.next_out = reinterpret_cast<Bytef*>(chunk);
      state_.avail_out = sizeof(chunk);
      const int result = ::deflate(&state_, mode);
      BANYAN_CHECK(result != Z_STREAM_ERROR);
      out.append(chunk, sizeof(chunk) - state_.avail_out);
    } while (state_.avail_out == 0);
  }

  z_stream state_{};
  bool open_ = false;
};
#endif

#ifdef BANYAN_WITH_ZSTD
class OutputFile::ZstdPacker : public Packer {
 public:
  ZstdPacker() : state_(::ZSTD_createCCtx()) {
    if (state_ == nullptr) Throw(ErrorKind::kLimit, "zstd: no memory");
    ::ZSTD_CCtx_setParameter(state_, ZSTD_c_checksumFlag, 1);
  }
  ~ZstdPacker() override { ::ZSTD_freeCCtx(state_); }
  ZstdPacker(const ZstdPacker&) = delete;
  ZstdPacker& operator=(const ZstdPacker&) = delete;

  void Pack(std::string_view bytes, std::string& out) override {
    open_ = open_ || !bytes.empty();
    ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
    while (in.pos < in.size) Run(in, ZSTD_e_continue, out);
  }
  void Flush(std::string& out) override {
    if (open_) Drain(ZSTD_e_flush, out);
  }
  void End(std::string& out) override {
    if (!open_) return;
    Drain(ZSTD_e_end, out);
    open_ = false;
  }

 private:
  void Drain(ZSTD_EndDirective mode, std::string& out) {
    ZSTD_inBuffer nothing = {nullptr, 0, 0};
    while (Run(nothing, mode, out) != 0) {
    }
  }
  size_t Run(ZSTD_inBuffer& in, ZSTD_EndDirective mode, std::string& out) {
    char chunk[1 << 14];
    ZSTD_outBuffer produced = {chunk, sizeof(chunk), 0};
    const size_t left = ::ZSTD_compressStream2(state_, &produced, &in, mode);
    BANYAN_CHECK(!::ZSTD_isError(left));
    out.append(chunk, produced.pos);
    return left;
  }

  ZSTD_CCtx* state_;
  bool open_ = false;
};
#endif

OutputFile::OutputFile(const std::string& path, Packing packing, const Kept& kept)
    : OutputFile(path, packing, kept, O_WRONLY | O_CREAT, nullptr) {}

OutputFile::OutputFile(const std::string& path, Packing packing, const std::function<bool()>& stop)
    : OutputFile(path, packing, {}, O_WRONLY | O_CREAT, stop) {}

std::unique_ptr<OutputFile> OutputFile::Create(const std::string& path, Packing packing) {
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  return std::unique_ptr<OutputFile>(new OutputFile(path, packing, {}, kNew, nullptr));
}

namespace {

// As OpenFile. The system would wait for the reader of a pipe whatever signals come.
int OpenForWriting(const std::string& path, int flags, const std::function<bool()>& stop) {
  constexpr auto kLookEvery = std::chrono::milliseconds(50);
  struct stat status {};
  const bool pipe = ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
  if (!pipe) return OpenFile(path, flags, 0644);
  int fd;
  while ((fd = OpenFile(path, flags | O_NONBLOCK, 0644)) < 0 && errno == ENXIO) {
    if (stop && stop()) Throw(ErrorKind::kIo, "{}: nobody has opened the pipe to read it", path);
    std::this_thread::sleep_for(kLookEvery);
  }
  if (fd >= 0) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

}  // namespace

OutputFile::OutputFile(const std::string& path, Packing packing, const Kept& kept, int flags,
                       const std::function<bool()>& stop)
    : path_(path), content_(kept) {
  if (packing == Packing::kGzip) {
#ifdef BANYAN_WITH_ZLIB
    packer_ = std::make_unique<GzipPacker>();
#else
    Throw(ErrorKind::kUnsupported, "{}: gzip, and this build has no zlib", path);
#endif
  }
  if (packing == Packing::kZstd) {
#ifdef BANYAN_WITH_ZSTD
    packer_ = std::make_unique<ZstdPacker>();
#else
    Throw(ErrorKind::kUnsupported, "{}: zstd, and this build has no libzstd", path);
#endif
  }
  if (path == "-") {
    fd_ = STDOUT_FILENO;
    path_ = "standard output";
    return;
  }
  const auto keep_bytes = static_cast<std::int64_t>(kept.bytes());
  fd_ = OpenForWriting(path, flags, stop);
  if (fd_ < 0) {
    Throw(ErrorKind::kIo, "{}: cannot open the output: {}", path, std::strerror(errno));
  }
  // Pipes and devices cannot be cut, and have nothing to cut.
  if (::ftruncate(fd_, keep_bytes) != 0 && errno != EINVAL) {
    const int reason = errno;
    ::close(fd_);
    Throw(ErrorKind::kIo, "{}: cannot cut to {} bytes: {}", path, keep_bytes,
          std::strerror(reason));
  }
  ::lseek(fd_, keep_bytes, SEEK_SET);
}

OutputFile::~OutputFile() {
  if (fd_ > STDERR_FILENO) ::close(fd_);
}

void OutputFile::Append(std::string_view bytes) {
  if (packer_) {
    packer_->Pack(bytes, buffer_);
  } else {
    buffer_ += bytes;
  }
  constexpr size_t kMostBuffered = 1 << 20;
  if (buffer_.size() > kMostBuffered) Write();
}

void OutputFile::Write() {
  WriteAll(fd_, buffer_, path_);
  content_.Add(buffer_);
  buffer_.clear();
}

void OutputFile::Flush() {
  if (packer_) packer_->Flush(buffer_);
  Write();
}

std::int64_t OutputFile::Checkpoint() {
  if (packer_) packer_->End(buffer_);
  Write();
  // Pipes and devices have nothing to sync.
  if (::fdatasync(fd_) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP) {
    Throw(ErrorKind::kIo, "{}: cannot write: {}", path_, std::strerror(errno));
  }
  return static_cast<std::int64_t>(content_.bytes());
}

}  // namespace banyan
