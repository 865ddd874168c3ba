// A JSON file: an array of objects is a table of rows, an object is one. What is neither is read
// line by line, as JSONL.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json_row.h"
#include "tasks/input/input_rows.h"

namespace banyan {
namespace {

constexpr std::string_view kJsonSpace = " \t\r\n";

class JsonRows : public InputRows {
 public:
  explicit JsonRows(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  bool Next(InputRow& row) override {
    if (!loaded_) Load();
    if (lines_) return lines_->Next(row);
    const std::optional<std::string_view> element = NextElement();
    if (!element) return false;
    const auto begin = static_cast<std::ptrdiff_t>(element->data() - text_.data());
    line_ += std::count(text_.begin() + counted_, text_.begin() + begin, '\n');
    counted_ = begin;
    row.line = line_;
    row.number = ++number_;
    row.content = *element;
    ReadJsonRow(row);
    return true;
  }
  std::int64_t line() const override { return lines_ ? lines_->line() : line_; }
  std::int64_t position() const override { return source_->position(); }

 private:
  void Load() {
    loaded_ = true;
    char chunk[1 << 14];
    while (const size_t got = source_->Read(chunk)) {
      text_.append(chunk, got);
      if (text_.size() > kMaxRowBytes) {
        Throw(ErrorKind::kLimit, "longer than {} bytes: make JSONL of it, a row a line (jq -c .[])",
              kMaxRowBytes);
      }
    }
    if (text_.starts_with("\xEF\xBB\xBF")) text_.erase(0, 3);
    at_ = text_.find_first_not_of(kJsonSpace);
    if (at_ == std::string::npos) return;
    if (text_[at_] == '[') {
      is_array_ = true;
      ++at_;
    } else if (!IsOneValue()) {
      lines_ = MakeJsonLines(ByteSourceOf(text_, "JSON"));
    }
  }

  bool IsOneValue() const {
    try {
      ParseJsonRow(text_);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  // What stands between the array's commas; all of a file that is one value.
  std::optional<std::string_view> NextElement() {
    at_ = std::min(text_.find_first_not_of(kJsonSpace, at_), text_.size());
    if (at_ == text_.size()) {
      if (is_array_ && !closed_) Throw(ErrorKind::kInput, "the array is not closed: expected ]");
      return std::nullopt;
    }
    const std::string_view rest = std::string_view(text_).substr(at_);
    if (!is_array_) {
      at_ = text_.size();
      return rest;
    }
    if (closed_) Throw(ErrorKind::kInput, "expected nothing after the array, found '{}'", rest[0]);
    if (rest[0] == ']') {
      closed_ = true;
      ++at_;
      return NextElement();
    }
    if (number_ > 0) {
      if (rest[0] != ',') Throw(ErrorKind::kInput, "expected a comma between rows");
      at_ = std::min(text_.find_first_not_of(kJsonSpace, at_ + 1), text_.size());
    }
    const size_t begin = at_;
    at_ = EndOfValue(begin);
    return std::string_view(text_).substr(begin, at_ - begin);
  }

  // The comma or bracket after the value, outside its strings and brackets.
  size_t EndOfValue(size_t at) const {
    int depth = 0;
    bool quoted = false;
    for (; at < text_.size(); ++at) {
      const char c = text_[at];
      if (quoted) {
        if (c == '\\') ++at;
        quoted = c != '"';
      } else if (c == '"') {
        quoted = true;
      } else if (c == '[' || c == '{') {
        ++depth;
      } else if ((c == ',' || c == ']') && depth == 0) {
        return at;
      } else if (c == ']' || c == '}') {
        --depth;
      }
    }
    return text_.size();
  }

  std::unique_ptr<ByteSource> source_;
  bool loaded_ = false, is_array_ = false, closed_ = false;
  std::string text_;
  size_t at_ = 0;
  std::ptrdiff_t counted_ = 0;  // lines up to here are counted
  std::int64_t line_ = 1, number_ = 0;
  std::unique_ptr<InputRows> lines_;  // the file is JSONL after all
};

}  // namespace

std::unique_ptr<InputRows> MakeJsonRows(std::unique_ptr<ByteSource> source) {
  return std::make_unique<JsonRows>(std::move(source));
}

}  // namespace banyan
