#include "base/line_reader.h"

#include <algorithm>
#include <cstring>

namespace banyan {

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
