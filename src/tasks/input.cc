#include "tasks/input.h"

#include <algorithm>
#include <filesystem>
#include <new>

#include "base/error.h"
#include "base/head_source.h"
#include "base/json_row.h"
#include "tasks/input_rows.h"

namespace banyan {
namespace {

// How a file without a telling name begins: up to its first character that is no space.
InputKind LookAt(HeadSource& source) {
  constexpr size_t kMostSpace = 1u << 16;
  return InputKindOfBytes(source.Head(kMostSpace, [](std::string_view head) {
    return head.find_first_not_of(" \t\r\n\xEF\xBB\xBF") != std::string_view::npos;
  }));
}

InputKind KindOf(const std::string& file, const InputOptions& options) {
  if (const auto given = InputKindNamed(options.format)) return *given;
  return InputKindOfFile(file).value_or(InputKind::kText);
}

const std::string& TheirName(const std::string& ours, const InputOptions& options) {
  const auto found = options.fields.find(ours);
  return found == options.fields.end() ? ours : found->second;
}

// Throws when a needed column is not among `names`.
void CheckColumns(const std::string& file, const std::vector<std::string>& names,
                  const InputOptions& options) {
  for (const std::vector<std::string>& alternatives : options.needed) {
    std::string wanted;
    bool found = false;
    for (const std::string& ours : alternatives) {
      const std::string& theirs = TheirName(ours, options);
      found |= std::ranges::find(names, theirs) != names.end();
      wanted += fmt::format("{}'{}'", wanted.empty() ? "" : " or ", theirs);
    }
    if (found) continue;
    std::string there;
    for (const std::string& name : names) {
      there += fmt::format("{}{}", there.empty() ? "" : ", ", name);
    }
    Throw(ErrorKind::kUsage,
          "{}: expected a column {}; the header has {} (--field {}=NAME says which one it is)",
          file == "-" ? "standard input" : file, wanted, there, alternatives.front());
  }
}

std::unique_ptr<InputRows> CsvOf(const std::string& file, InputKind kind,
                                 const InputOptions& options, const std::atomic<bool>* cancelled) {
  const char delimiter = kind == InputKind::kTsv ? '\t' : options.delimiter;
  return MakeCsvRows(OpenByteSource(file, cancelled), delimiter,
                     [file, options](const std::vector<std::string>& names) {
                       CheckColumns(file, names, options);
                     });
}

}  // namespace

RowProblem ProblemOf(const std::exception& thrown) {
  if (const auto* error = dynamic_cast<const Error*>(&thrown))
    return {error->kind(), error->what()};
  if (dynamic_cast<const std::bad_alloc*>(&thrown)) return {ErrorKind::kLimit, "out of memory"};
  return {ErrorKind::kInput, thrown.what()};
}

void CheckHeaders(const InputOptions& options) {
  for (const std::string& file : options.files) {
    const InputKind kind = KindOf(file, options);
    std::error_code none;
    const bool rows = kind == InputKind::kCsv || kind == InputKind::kTsv;
    if (!rows || !std::filesystem::is_regular_file(file, none)) continue;
    try {
      InputRow row;
      CsvOf(file, kind, options, nullptr)->Next(row);
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::kUsage) throw;  // what else is wrong comes out as a bad row
    }
  }
}

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

std::unique_ptr<InputRows> InputReader::Open(const std::string& file) const {
  InputKind kind = KindOf(file, options_);
  if (kind == InputKind::kCsv || kind == InputKind::kTsv) {
    return CsvOf(file, kind, options_, cancelled_);
  }
  auto source = std::make_unique<HeadSource>(OpenByteSource(file, cancelled_));
  if (options_.format.empty() && !InputKindOfFile(file)) kind = LookAt(*source);
  if (kind == InputKind::kJsonLines) return MakeJsonLines(std::move(source));
  const DocumentKind document = kind == InputKind::kPdf    ? DocumentKind::kPdf
                                : kind == InputKind::kHtml ? DocumentKind::kHtml
                                                           : DocumentKind::kPlain;
  return MakeDocument(std::move(source), document, options_.document_field, cancelled_);
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

void InputReader::GiveId(InputRow& row, bool blank_is_none) const {
  const auto id = row.value.find("id");
  const bool none = id == row.value.end() || id->is_null() || (blank_is_none && *id == "");
  if (!none) return;
  if (row.line == 0) {
    row.value["id"] = row.file == "standard input" ? "stdin" : row.file;
  } else if (options_.files.size() == 1) {
    row.value["id"] = row.line;
  } else {
    row.value["id"] = fmt::format("{}:{}", row.file, row.line);
  }
}

bool InputReader::Next(InputRow& row) {
  while (rows_ || next_file_ < options_.files.size()) {
    row = InputRow();
    bool found = false;
    bool document = false, blank_is_none = false;
    // A file that cannot be read any further is one bad row; the other files go on.
    try {
      if (!rows_) rows_ = Open(options_.files[next_file_++]);
      document = rows_->is_document();
      blank_is_none = rows_->blank_is_none();
      found = rows_->Next(row);
      row.input_position = finished_bytes_ + rows_->position();
      if (!found) {
        finished_bytes_ += rows_->position();
        rows_.reset();
        continue;
      }
    } catch (const std::exception& e) {
      row.problem = ProblemOf(e);
      if (row.problem->kind == ErrorKind::kUsage) throw;
      row.line = rows_ ? rows_->line() + 1 : 0;
      row.value = Json::object();
      if (rows_) finished_bytes_ += rows_->position();
      rows_.reset();
    }
    const std::string& file = options_.files[next_file_ - 1];
    row.file = file == "-" ? "standard input" : file;
    row.index = next_index_++;
    if (!document) Rename(row.value);
    if (!row.problem || document) GiveId(row, blank_is_none);
    return true;
  }
  return false;
}

}  // namespace banyan
