// Input streams: bytes from a file, standard input or memory (gzip and zstd are recognised by their
// first bytes and unpacked), text in other encodings as UTF-8, and readers of characters and lines.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// A source whose first bytes can be looked at before they are read.
class HeadSource : public ByteSource {
 public:
  explicit HeadSource(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  // The source's beginning: as much as `enough` asks to see, at most `most_bytes` (and what came
  // with them), less at the end of the source. Throws what the source throws.
  std::string_view Head(size_t most_bytes, const std::function<bool(std::string_view)>& enough);

  size_t Read(std::span<char> out) override;
  // What was looked at and not read does not count (exactly so where the source is not packed).
  std::int64_t position() const override;

 private:
  std::unique_ptr<ByteSource> source_;
  std::string head_;
  size_t given_ = 0;  // bytes of the head that were read
};

// Throws kUsage unless the machine's iconv knows the name ("latin-1" and "windows-1252" are always
// known).
void CheckEncoding(const std::string& encoding);

// The source's text as UTF-8. Reading throws kInput with the byte's number where the bytes are not
// valid in that encoding.
std::unique_ptr<ByteSource> DecodedSource(std::unique_ptr<ByteSource> source,
                                          const std::string& encoding);

// Buffered reading, one character or one line at a time.
class CharacterReader {
 public:
  explicit CharacterReader(std::unique_ptr<ByteSource> source);

  // The next byte as 0 to 255 without taking it; -1 at the end.
  int Peek() {
    if (next_ == end_ && !Fill()) return -1;
    return static_cast<unsigned char>(window_[next_]);
  }
  int Get() {
    const int c = Peek();
    if (c >= 0) ++next_;
    return c;
  }
  // Takes bytes up to and with the next '\n', or to the end; appends those before it to `line` as
  // long as it stays within `max_bytes`. False when nothing was left to take.
  bool GetLine(std::string& line, size_t max_bytes, bool& too_long);

  // Bytes of the file up to the next one, as stored; of packed files near that.
  std::int64_t position() const;

 private:
  bool Fill();

  std::unique_ptr<ByteSource> source_;
  std::vector<char> window_;
  size_t next_ = 0, end_ = 0;
  std::int64_t window_position_ = 0;  // where the window's first byte stands in the file
};

// Lines of a source with their numbers. A line that is longer than allowed is skipped without ever
// being held in memory.
class LineReader {
 public:
  LineReader(std::unique_ptr<ByteSource> source, size_t max_line_bytes)
      : reader_(std::move(source)), max_line_bytes_(max_line_bytes) {}

  // The next line without its end ("\n" or "\r\n"); the file's byte order mark is left out. False
  // at the end. Throws what the source throws.
  bool Next(std::string& line);
  // The last line was longer than allowed; `line` is empty then.
  bool too_long() const { return too_long_; }
  std::int64_t number() const { return number_; }  // of the last line, from 1
  std::int64_t position() const { return reader_.position(); }

 private:
  CharacterReader reader_;
  size_t max_line_bytes_;
  std::int64_t number_ = 0;
  bool too_long_ = false;
};

}  // namespace banyan
