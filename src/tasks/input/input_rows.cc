// Rows of JSONL, JSON arrays and CSV; a document as one row.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/byte_source.h"
#include "base/characters.h"
#include "base/csv.h"
#include "base/error.h"
#include "base/json.h"
#include "tasks/input/input_rows.h"
#include "text/unicode.h"

namespace banyan {

namespace {

constexpr const char* kNotUtf8 = "not valid UTF-8 (--encoding windows-1252, if it is that)";

// What can be read of a row that is not valid: at least its id, for the error row.
Json IdOnly(const std::string& line) {
  std::string repaired;
  AppendLossyUtf8(line, repaired);
  try {
    Json value = ParseJsonRow(repaired);
    if (value.is_object()) return value;
  } catch (const Error&) {
  }
  return Json::object();
}

class JsonLines : public InputRows {
 public:
  JsonLines(std::unique_ptr<ByteSource> source, std::string mark)
      : reader_(std::move(source), kMaxRowBytes), mark_(std::move(mark)) {}

  bool Next(InputRow& row) override {
    std::string& line = row.content;
    do {
      if (!reader_.Next(line)) return false;
    } while (!reader_.too_long() && (IsBlank(line) || line.find(mark_) == std::string::npos));
    row.line = reader_.number();
    row.value = Json::object();
    if (reader_.too_long()) {
      row.problem = {ErrorKind::kLimit, fmt::format("longer than {} bytes", kMaxRowBytes)};
    } else {
      ReadJsonRow(row);
    }
    return true;
  }
  std::int64_t line() const override { return reader_.number(); }
  std::int64_t position() const override { return reader_.position(); }

 private:
  LineReader reader_;
  const std::string mark_;  // what a row has in it
};

class CsvRows : public InputRows {
 public:
  CsvRows(std::unique_ptr<ByteSource> source, char delimiter,
          std::function<void(const std::vector<std::string>&)> check)
      : reader_(std::move(source), kMaxRowBytes, delimiter),
        delimiter_(delimiter),
        check_(std::move(check)) {}

  bool Next(InputRow& row) override {
    if (names_.empty() && !ReadNames()) return false;
    std::vector<std::string> fields;
    if (!reader_.Next(fields)) return false;
    row.line = reader_.line();
    row.value = Json::object();
    if (!reader_.problem().empty()) {
      row.problem = {ErrorKind::kInput, reader_.problem()};
    } else if (fields.size() != names_.size()) {
      row.problem = {ErrorKind::kInput, fmt::format("expected {} fields as in the header, found {}",
                                                    names_.size(), fields.size())};
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      row.content += fmt::format("{}:", fields[i].size());
      row.content += fields[i];
      if (!IsValidUtf8(fields[i])) {
        if (!row.problem) row.problem = {ErrorKind::kInput, kNotUtf8};
      } else if (i < names_.size()) {
        row.value[names_[i]] = fields[i];
      }
    }
    return true;
  }
  std::int64_t line() const override { return reader_.line(); }
  std::int64_t position() const override { return reader_.position(); }
  bool blank_is_none() const override { return true; }
  char delimiter() const override { return delimiter_; }
  std::vector<std::string> Columns() override {
    if (names_.empty()) ReadNames();
    return names_;
  }

 private:
  // The first row. Without it nothing of the file makes sense.
  bool ReadNames() {
    if (!reader_.Next(names_)) return false;
    std::set<std::string> seen;
    for (const std::string& name : names_) {
      if (!IsValidUtf8(name)) Throw(ErrorKind::kInput, "the CSV header is not valid UTF-8");
      if (!seen.insert(name).second) {
        Throw(ErrorKind::kInput, "the CSV header names '{}' twice", name);
      }
    }
    if (!reader_.problem().empty()) Throw(ErrorKind::kInput, "CSV header: {}", reader_.problem());
    check_(names_);
    return true;
  }

  CsvReader reader_;
  const char delimiter_;
  std::function<void(const std::vector<std::string>&)> check_;
  std::vector<std::string> names_;
};

class Document : public InputRows {
 public:
  Document(std::unique_ptr<ByteSource> source, DocumentKind kind, std::string field,
           const std::atomic<bool>* cancelled)
      : source_(std::move(source)), kind_(kind), field_(std::move(field)), cancelled_(cancelled) {}

  bool Next(InputRow& row) override {
    if (std::exchange(done_, true)) return false;
    row.value = Json::object();
    try {
      row.content = ReadDocument(*source_, kind_, kMaxRowBytes, cancelled_);
    } catch (const NotUtf8& e) {
      Throw(ErrorKind::kInput, "{} (--encoding {}, if it is that)", e.what(), e.encoding());
    }
    if (cancelled_ != nullptr && *cancelled_) return false;  // half a document is none
    if (IsBlank(row.content)) {
      row.problem = {ErrorKind::kInput, "the file has no text"};
      return true;
    }
    row.value[field_] = row.content;
    return true;
  }
  std::int64_t line() const override { return -1; }  // a document's errors name the file alone
  std::int64_t position() const override { return source_->position(); }
  bool is_document() const override { return true; }

 private:
  std::unique_ptr<ByteSource> source_;
  DocumentKind kind_;
  std::string field_;
  const std::atomic<bool>* cancelled_;
  bool done_ = false;
};

}  // namespace

void ReadJsonRow(InputRow& row) {
  row.value = Json::object();
  if (!IsValidUtf8(row.content)) {
    row.problem = {ErrorKind::kInput, kNotUtf8};
    row.value = IdOnly(row.content);
    return;
  }
  try {
    row.value = ParseJsonRow(row.content);
  } catch (const std::exception& e) {
    row.problem = ProblemOf(e);
    if (row.problem->kind == ErrorKind::kFormat) row.problem->kind = ErrorKind::kInput;
    row.value = Json::object();
    return;
  }
  if (row.value.is_object()) return;
  row.problem = {ErrorKind::kInput,
                 fmt::format("expected a JSON object, found {}", TypeName(row.value))};
  row.value = Json::object();
}

std::unique_ptr<InputRows> MakeJsonLines(std::unique_ptr<ByteSource> source, std::string mark) {
  return std::make_unique<JsonLines>(std::move(source), std::move(mark));
}

std::unique_ptr<ByteSource> FindDelimiter(std::unique_ptr<ByteSource> source, char& delimiter) {
  if (delimiter != 0) return source;
  constexpr size_t kLongestHeader = 1u << 20;
  auto peeked = std::make_unique<HeadSource>(std::move(source));
  delimiter = CsvDelimiterOf(peeked->Head(kLongestHeader, HasWholeCsvRow));
  return peeked;
}

std::unique_ptr<InputRows> MakeCsvRows(std::unique_ptr<ByteSource> source, char delimiter,
                                       std::function<void(const std::vector<std::string>&)> check) {
  source = FindDelimiter(std::move(source), delimiter);
  return std::make_unique<CsvRows>(std::move(source), delimiter, std::move(check));
}

std::unique_ptr<InputRows> MakeDocument(std::unique_ptr<ByteSource> source, DocumentKind kind,
                                        std::string field, const std::atomic<bool>* cancelled) {
  return std::make_unique<Document>(std::move(source), kind, std::move(field), cancelled);
}

namespace {

constexpr std::string_view kJsonSpace = " \t\r\n";

// An array of objects is a table of rows, an object is one. What is neither is read line by line,
// as JSONL.
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
