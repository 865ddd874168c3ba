#include "tasks/input.h"

#include <glob.h>

#include <filesystem>
#include <fstream>
#include <new>
#include <set>

#include "base/byte_source.h"
#include "base/csv.h"
#include "base/error.h"
#include "base/file_identity.h"
#include "base/json_row.h"
#include "base/line_reader.h"
#include "text/utf8.h"

namespace banyan {
namespace {

constexpr size_t kMaxRowBytes = 256u << 20;

bool IsBlank(const std::string& line) {
  return line.find_first_not_of(" \t\r\n") == std::string::npos;
}

// What can be known of a row that is not valid: at least its id, for whoever looks for it.
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

// The job's output or a journal, which a pattern for the input may match too.
bool IsOwn(const std::string& file, const std::string& output) {
  if (output != "-" && IdentityOf(file) == IdentityOf(output)) return true;
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return false;
  constexpr std::string_view kJournal = "BANYANJ";
  char begin[kJournal.size()] = {};
  std::ifstream(file, std::ios::binary).read(begin, sizeof(begin));
  return std::string_view(begin, sizeof(begin)) == kJournal;
}

std::vector<std::string> Matches(const std::string& pattern) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_BRACE, nullptr, &found);
  std::vector<std::string> files;
  for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) files.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  return files;
}

}  // namespace

RowProblem ProblemOf(const std::exception& thrown) {
  if (const auto* error = dynamic_cast<const Error*>(&thrown))
    return {error->kind(), error->what()};
  if (dynamic_cast<const std::bad_alloc*>(&thrown)) return {ErrorKind::kLimit, "out of memory"};
  return {ErrorKind::kInput, thrown.what()};
}

std::vector<std::string> ExpandInputs(const std::vector<std::string>& inputs,
                                      const std::string& output) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    if (input == "-" || std::filesystem::exists(input)) {
      if (std::filesystem::is_directory(input)) {
        Throw(ErrorKind::kUsage, "{}: expected a file, found a directory; try '{}/*.jsonl'", input,
              input);
      }
      files.push_back(input);
      continue;
    }
    std::vector<std::string> matches = Matches(input);
    std::erase_if(matches, [&](const std::string& file) { return IsOwn(file, output); });
    if (matches.empty()) Throw(ErrorKind::kNotFound, "{}: no such input file", input);
    files.insert(files.end(), matches.begin(), matches.end());
  }
  return files;
}

// The rows of one file.
class InputReader::Rows {
 public:
  virtual ~Rows() = default;
  virtual bool Next(InputRow& row) = 0;  // fills line, content, value or problem
  virtual std::int64_t line() const = 0;
  virtual std::int64_t position() const = 0;
};

class InputReader::JsonLines : public Rows {
 public:
  explicit JsonLines(std::unique_ptr<ByteSource> source)
      : reader_(std::move(source), kMaxRowBytes) {}

  bool Next(InputRow& row) override {
    std::string& line = row.content;
    do {
      if (!reader_.Next(line)) return false;
    } while (IsBlank(line) && !reader_.too_long());
    row.line = reader_.number();
    row.value = Json::object();
    if (reader_.too_long()) {
      row.problem = {ErrorKind::kLimit, fmt::format("longer than {} bytes", kMaxRowBytes)};
    } else if (!IsValidUtf8(line)) {
      row.problem = {ErrorKind::kInput, "not valid UTF-8"};
      row.value = IdOnly(line);
    } else {
      Parse(row);
    }
    return true;
  }
  std::int64_t line() const override { return reader_.number(); }
  std::int64_t position() const override { return reader_.position(); }

 private:
  static void Parse(InputRow& row) {
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

  LineReader reader_;
};

class InputReader::CsvRows : public Rows {
 public:
  explicit CsvRows(std::unique_ptr<ByteSource> source) : reader_(std::move(source), kMaxRowBytes) {}

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
        if (!row.problem) row.problem = {ErrorKind::kInput, "not valid UTF-8"};
      } else if (i < names_.size()) {
        row.value[names_[i]] = fields[i];
      }
    }
    return true;
  }
  std::int64_t line() const override { return reader_.line(); }
  std::int64_t position() const override { return reader_.position(); }

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
    return true;
  }

  CsvReader reader_;
  std::vector<std::string> names_;
};

InputReader::InputReader(InputOptions options, const std::atomic<bool>* cancelled)
    : options_(std::move(options)), cancelled_(cancelled) {
  for (const std::string& file : options_.files) {
    std::error_code no_size;
    const auto size = std::filesystem::is_regular_file(file, no_size)
                          ? std::filesystem::file_size(file, no_size)
                          : static_cast<std::uintmax_t>(-1);
    if (size == static_cast<std::uintmax_t>(-1)) {
      total_bytes_ = -1;
      return;
    }
    total_bytes_ += static_cast<std::int64_t>(size);
  }
}

InputReader::~InputReader() = default;

std::unique_ptr<InputReader::Rows> InputReader::Open(const std::string& file) const {
  const bool named_csv =
      file.ends_with(".csv") || file.ends_with(".csv.gz") || file.ends_with(".csv.zst");
  const bool csv = options_.format.empty() ? named_csv : options_.format == "csv";
  if (csv) return std::make_unique<CsvRows>(OpenByteSource(file, cancelled_));
  return std::make_unique<JsonLines>(OpenByteSource(file, cancelled_));
}

void InputReader::Rename(Json& value) const {
  for (const auto& [ours, theirs] : options_.fields) {
    if (ours == theirs) continue;
    const auto it = value.find(theirs);
    if (it == value.end()) {
      value.erase(ours);  // the mapping says where the field is, and it is not there
      continue;
    }
    Json moved = std::move(*it);
    value.erase(theirs);
    value[ours] = std::move(moved);
  }
}

bool InputReader::Next(InputRow& row) {
  while (rows_ || next_file_ < options_.files.size()) {
    row = InputRow();
    bool found = false;
    // A file that cannot be read any further is one bad row; the other files go on.
    try {
      if (!rows_) rows_ = Open(options_.files[next_file_++]);
      found = rows_->Next(row);
      row.input_position = finished_bytes_ + rows_->position();
      if (!found) {
        finished_bytes_ += rows_->position();
        rows_.reset();
        continue;
      }
    } catch (const std::exception& e) {
      row.line = rows_ ? rows_->line() + 1 : 0;
      row.value = Json::object();
      row.problem = ProblemOf(e);
      if (rows_) finished_bytes_ += rows_->position();
      rows_.reset();
    }
    const std::string& file = options_.files[next_file_ - 1];
    row.file = file == "-" ? "standard input" : file;
    row.index = next_index_++;
    Rename(row.value);
    return true;
  }
  return false;
}

}  // namespace banyan
