// Sources of bytes: files, memory, gzip, zstd and iconv; the readers of characters and lines.
#include "base/byte_source.h"

#include <fcntl.h>
#include <iconv.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#ifdef BANYAN_WITH_ZLIB
#include <zlib.h>
#endif
#ifdef BANYAN_WITH_ZSTD
#include <zstd.h>
#endif

namespace banyan {
namespace {

constexpr size_t kPackedChunkBytes = 1 << 16;

class FileSource : public ByteSource {
 public:
  FileSource(const std::string& path, const std::atomic<bool>* cancelled)
      : name_(path == "-" ? "standard input" : path), cancelled_(cancelled) {
    if (path == "-") {
      fd_ = STDIN_FILENO;
      return;
    }
    // The system would wait for the writer of a named pipe, whatever is cancelled meanwhile.
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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
    if (S_ISFIFO(status.st_mode)) WaitForWriter();
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_NONBLOCK);
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
  static constexpr int kMilliseconds = 50;  // between looks at `cancelled`

  // Until there was one: before, a pipe looks as if it were at its end.
  void WaitForWriter() const {
    pollfd wanted{fd_, POLLIN, 0};
    while (!(cancelled_ != nullptr && *cancelled_) && ::poll(&wanted, 1, kMilliseconds) <= 0) {
    }
  }

  // False when reading was given up.
  bool WaitForBytes() const {
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
      : source_(std::move(source)), name_(std::move(name)), packed_(kPackedChunkBytes) {
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
      : source_(std::move(source)), name_(std::move(name)), packed_(kPackedChunkBytes) {
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

// As iconv calls it: people write "latin-1", "Latin1" and "cp1252".
std::string SystemName(const std::string& encoding) {
  std::string name;
  for (const char c : encoding) {
    if (c != '-' && c != '_' && c != ' ') {
      name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
  }
  if (name == "LATIN1" || name == "ISO88591") return "ISO-8859-1";
  if (name == "CP1252" || name == "WINDOWS1252" || name == "ANSI") return "WINDOWS-1252";
  if (name == "UTF8") return "UTF-8";
  return encoding;
}

class Decoder : public ByteSource {
 public:
  Decoder(std::unique_ptr<ByteSource> source, const std::string& encoding)
      : source_(std::move(source)), name_(encoding) {
    CheckEncoding(encoding);
    converter_ = ::iconv_open("UTF-8", SystemName(encoding).c_str());
  }
  ~Decoder() override { ::iconv_close(converter_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  size_t Read(std::span<char> out) override {
    while (given_ == decoded_.size() && !ended_) Decode();
    const size_t count = std::min(out.size(), decoded_.size() - given_);
    std::memcpy(out.data(), decoded_.data() + given_, count);
    given_ += count;
    return count;
  }
  std::int64_t position() const override { return source_->position(); }

 private:
  // The next bytes of the source; a character that they cut waits for its rest.
  void Decode() {
    constexpr size_t kChunkBytes = 1 << 14;
    const size_t kept = waiting_.size();
    waiting_.resize(kept + kChunkBytes);
    const size_t got = source_->Read(std::span(waiting_.data() + kept, kChunkBytes));
    waiting_.resize(kept + got);
    ended_ = got == 0;
    // No character of any encoding takes more than four times its bytes in UTF-8.
    decoded_.resize(4 * waiting_.size() + 16);
    char* in = waiting_.data();
    char* to = decoded_.data();
    size_t left = waiting_.size(), room = decoded_.size();
    const size_t result = ::iconv(converter_, &in, &left, &to, &room);
    const int reason = result == static_cast<size_t>(-1) ? errno : 0;
    const size_t taken = waiting_.size() - left;
    if (reason == EILSEQ || (reason == EINVAL && ended_) || reason == E2BIG) {
      Throw(ErrorKind::kInput, "not valid {} at byte {}", name_, taken_ + taken + 1);
    }
    decoded_.resize(decoded_.size() - room);
    given_ = 0;
    taken_ += taken;
    waiting_.erase(0, taken);
  }

  std::unique_ptr<ByteSource> source_;
  std::string name_;
  iconv_t converter_;
  std::string waiting_;  // read and not decoded
  std::string decoded_;
  size_t given_ = 0;  // of `decoded_`
  size_t taken_ = 0;  // bytes decoded
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> OpenByteSource(const std::string& path,
                                           const std::atomic<bool>* cancelled) {
  return Unpacked(std::make_unique<FileSource>(path, cancelled),
                  path == "-" ? "standard input" : path);
}

std::unique_ptr<ByteSource> ByteSourceOf(std::string_view bytes, const std::string& name) {
  return Unpacked(std::make_unique<MemorySource>(bytes), name);
}

std::string_view HeadSource::Head(size_t most_bytes,
                                  const std::function<bool(std::string_view)>& enough) {
  constexpr size_t kChunkBytes = 4096;
  char bytes[kChunkBytes];
  while (head_.size() < most_bytes && !enough(head_)) {
    const size_t got = source_->Read(std::span(bytes, std::min(kChunkBytes, most_bytes)));
    if (got == 0) break;
    head_.append(bytes, got);
  }
  return head_;
}

std::int64_t HeadSource::position() const {
  const auto unread = static_cast<std::int64_t>(head_.size() - given_);
  return std::max<std::int64_t>(0, source_->position() - unread);
}

size_t HeadSource::Read(std::span<char> out) {
  if (given_ == head_.size()) return source_->Read(out);
  const size_t count = std::min(out.size(), head_.size() - given_);
  std::memcpy(out.data(), head_.data() + given_, count);
  given_ += count;
  return count;
}

void CheckEncoding(const std::string& encoding) {
  const iconv_t converter = ::iconv_open("UTF-8", SystemName(encoding).c_str());
  if (converter == reinterpret_cast<iconv_t>(-1)) {
    Throw(ErrorKind::kUsage,
          "--encoding: expected the name of an encoding, such as latin-1, windows-1252 or UTF-16; "
          "found '{}'",
          encoding);
  }
  ::iconv_close(converter);
}

std::unique_ptr<ByteSource> DecodedSource(std::unique_ptr<ByteSource> source,
                                          const std::string& encoding) {
  return std::make_unique<Decoder>(std::move(source), encoding);
}

CharacterReader::CharacterReader(std::unique_ptr<ByteSource> source)
    : source_(std::move(source)), window_(1 << 16) {}

bool CharacterReader::Fill() {
  window_position_ = source_->position();
  next_ = 0;
  end_ = source_->Read(window_);
  return end_ > 0;
}

std::int64_t CharacterReader::position() const {
  const std::int64_t after = source_->position();
  if (next_ == end_) return after;
  const auto stored = static_cast<double>(after - window_position_);
  return window_position_ +
         static_cast<std::int64_t>(stored * static_cast<double>(next_) / static_cast<double>(end_));
}

bool CharacterReader::GetLine(std::string& line, size_t max_bytes, bool& too_long) {
  bool any = false;
  too_long = false;
  while (next_ < end_ || Fill()) {
    any = true;
    const char* begin = window_.data() + next_;
    const auto* newline = static_cast<const char*>(std::memchr(begin, '\n', end_ - next_));
    const size_t count = newline != nullptr ? static_cast<size_t>(newline - begin) : end_ - next_;
    if (!too_long && line.size() + count > max_bytes) {
      too_long = true;
      line.clear();
    }
    if (!too_long) line.append(begin, count);
    next_ += count;
    if (newline != nullptr) {
      ++next_;
      break;
    }
  }
  return any;
}

bool LineReader::Next(std::string& line) {
  line.clear();
  if (!reader_.GetLine(line, max_line_bytes_, too_long_)) return false;
  ++number_;
  if (number_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

}  // namespace banyan
