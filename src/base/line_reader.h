// Lines of a source, with their numbers. A line that is longer than allowed is skipped without ever
// being held in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_source.h"

namespace banyan {

// A file's bytes through a window, one character or one stretch at a time.
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
