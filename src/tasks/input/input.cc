#include <fnmatch.h>
#include <unistd.h>

#include <fmt/ranges.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include "base/byte_source.h"
#include "base/error.h"
#include "base/json.h"
#include "base/work_budget.h"
#include "load/model_parts.h"
#include "program/near_names.h"
#include "tasks/input/input.h"
#include "tasks/input/input_rows.h"

namespace banyan {

namespace {

// How a file without a telling name begins: its first line that is not blank.
InputKind LookAt(HeadSource& source, const InputOptions& options, const std::string& file) {
  constexpr size_t kLongestLine = 1u << 16;
  const std::string_view head = source.Head(kLongestLine, [](std::string_view seen) {
    const size_t text = seen.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
    return text != std::string_view::npos && seen.find('\n', text) != std::string_view::npos;
  });
  return InputKindOfBytes(head, options.NeededOf(file), options.delimiter);
}

std::optional<InputKind> KnownKind(const std::string& file, const InputOptions& options) {
  if (const auto given = InputKindNamed(options.format)) return given;
  return InputKindOfFile(file);
}

std::string DidYouMeanColumn(const std::string& wanted, const std::vector<std::string>& names) {
  const std::string near = NearestName(wanted, names);
  return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
}

// Throws when a column that is needed, or that `fields` name, is not among `names`.
void CheckColumns(const std::string& file, const std::vector<std::string>& names,
                  const InputOptions& options) {
  const std::vector<std::vector<std::string>> needed = options.NeededOf(file);
  for (size_t i = 0; i < needed.size(); ++i) {
    std::string wanted;
    bool found = false;
    for (size_t j = 0; j < needed[i].size(); ++j) {
      const std::string& theirs = needed[i][j];
      found |= std::ranges::find(names, theirs) != names.end();
      if (j >= options.needed[i].size()) continue;  // the document's other name
      wanted += fmt::format("{}'{}'", wanted.empty() ? "" : " or ", theirs);
    }
    if (found) continue;
    const std::string& ours = options.needed[i].front();
    Throw(ErrorKind::kUsage,
          "{}: expected a column {}; the header has {} ({} says which one it is){}",
          file == "-" ? "standard input" : file, wanted, fmt::join(names, ", "),
          ours == "id" ? "--id NAME" : fmt::format("--field {}=NAME", ours),
          DidYouMeanColumn(needed[i].front(), names));
  }
  for (const auto& [ours, theirs] : options.FieldsOf(file)) {
    const bool may_miss = ours == "id" || std::ranges::find(names, theirs) != names.end();
    if (may_miss) continue;
    Throw(ErrorKind::kUsage, "{}: expected a column '{}' for '{}'; the header has {}{}",
          file == "-" ? "standard input" : file, theirs, ours, fmt::join(names, ", "),
          DidYouMeanColumn(theirs, names));
  }
}

// Throws kIo for what the system does not let us read.
void CheckReadable(const std::string& file) {
  std::error_code none;
  const bool folder = std::filesystem::is_directory(file, none);
  if (::access(file.c_str(), folder ? R_OK | X_OK : R_OK) == 0 && !folder) return;
  Throw(ErrorKind::kIo, "{}: cannot read the {}: {}", file, folder ? "folder" : "file",
        std::strerror(errno));
}

// Lines of JSONL without `mark` are passed over.
std::unique_ptr<InputRows> OpenRows(const std::string& file, const InputOptions& options,
                                    const std::atomic<bool>* cancelled,
                                    const std::string& mark = {}) {
  if (file != "-") {
    if (options.format.empty()) RefuseForeignFormat(file);
    CheckReadable(file);
  }
  auto head = std::make_unique<HeadSource>(OpenByteSource(file, cancelled));
  const auto known = KnownKind(file, options);
  const InputKind kind = known ? *known : LookAt(*head, options, file);
  std::unique_ptr<ByteSource> source = std::move(head);
  if (!options.encoding.empty() && kind != InputKind::kPdf) {
    source = DecodedSource(std::move(source), options.encoding);
  }
  switch (kind) {
    case InputKind::kJsonLines:
      return MakeJsonLines(std::move(source), mark);
    case InputKind::kJson:
      return MakeJsonRows(std::move(source));
    case InputKind::kCsv:
    case InputKind::kTsv:
      return MakeCsvRows(std::move(source), kind == InputKind::kTsv ? '\t' : options.delimiter,
                         [file, options](const std::vector<std::string>& names) {
                           CheckColumns(file, names, options);
                         });
    default:
      break;
  }
  const DocumentKind document = kind == InputKind::kPdf    ? DocumentKind::kPdf
                                : kind == InputKind::kHtml ? DocumentKind::kHtml
                                                           : DocumentKind::kPlain;
  return MakeDocument(std::move(source), document, options.document_field, cancelled);
}

ErrorKind KindNamed(const std::string& name) {
  for (const ErrorKind kind : {ErrorKind::kUsage, ErrorKind::kNotFound, ErrorKind::kIo,
                               ErrorKind::kFormat, ErrorKind::kUnsupported, ErrorKind::kLimit}) {
    if (name == ErrorKindName(kind)) return kind;
  }
  return ErrorKind::kInput;
}

}  // namespace

RowProblem ProblemOf(const std::exception& thrown) {
  if (const auto* stopped = dynamic_cast<const WorkStopped*>(&thrown)) throw *stopped;
  if (const auto* error = dynamic_cast<const Error*>(&thrown))
    return {error->kind(), error->what()};
  if (dynamic_cast<const std::bad_alloc*>(&thrown)) return {ErrorKind::kLimit, "out of memory"};
  return {ErrorKind::kInput, thrown.what()};
}

std::map<std::string, std::string> InputOptions::FieldsOf(const std::string& file) const {
  std::map<std::string, std::string> names = fields;
  const std::string name = std::filesystem::path(file).filename().string();
  for (const FileField& field : file_fields) {
    const bool matches = ::fnmatch(field.pattern.c_str(), name.c_str(), 0) == 0 ||
                         ::fnmatch(field.pattern.c_str(), file.c_str(), 0) == 0;
    if (matches) names[field.ours] = field.theirs;
  }
  return names;
}

std::vector<std::vector<std::string>> InputOptions::NeededOf(const std::string& file) const {
  const std::map<std::string, std::string> names = FieldsOf(file);
  std::vector<std::vector<std::string>> theirs = needed;
  for (std::vector<std::string>& alternatives : theirs) {
    for (std::string& name : alternatives) {
      const auto found = names.find(name);
      if (found != names.end()) name = found->second;
    }
    const bool renamed = names.contains(document_field) || other_document_field.empty();
    if (!renamed && std::ranges::find(alternatives, document_field) != alternatives.end()) {
      alternatives.push_back(other_document_field);
    }
  }
  return theirs;
}

std::optional<RowProblem> ProblemOfFile(const std::string& file, const InputOptions& options) {
  std::error_code none;
  if (file == "-") return std::nullopt;
  try {
    if (options.format.empty()) RefuseForeignFormat(file);
    CheckReadable(file);
    // Pipes are read once.
    const auto kind = KnownKind(file, options);
    const bool table = kind == InputKind::kCsv || kind == InputKind::kTsv;
    if (!table || !std::filesystem::is_regular_file(file, none)) return std::nullopt;
    InputRow row;
    OpenRows(file, options, nullptr)->Next(row);
  } catch (const Error& e) {
    // What else is wrong with rows comes out as a bad row.
    if (e.kind() == ErrorKind::kUsage || e.kind() == ErrorKind::kIo) return ProblemOf(e);
  }
  return std::nullopt;
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

std::string FreeInputName(const std::string& name, const std::vector<std::string>& taken) {
  std::string free_name = name;
  do {
    free_name.insert(0, "input_");
  } while (std::ranges::find(taken, free_name) != taken.end());
  return free_name;
}

void InputReader::Rename(Json& value) const {
  std::map<std::string, Json> named;
  for (const auto& [ours, theirs] : fields_) {
    const auto it = value.find(theirs);
    if (ours != theirs && it != value.end()) named[ours] = *it;
  }
  for (const auto& [ours, theirs] : fields_) {
    if (ours != theirs && value.contains(theirs)) value.erase(theirs);
  }
  // A field that has our name and is another one is kept beside it.
  for (const auto& [ours, theirs] : fields_) {
    const auto it = value.find(ours);
    if (ours == theirs || it == value.end()) continue;
    std::vector<std::string> taken;
    for (const auto& item : value.items()) taken.push_back(item.key());
    Json other = std::move(*it);
    value.erase(ours);
    value[FreeInputName(ours, taken)] = std::move(other);
  }
  for (auto& [ours, field] : named) value[ours] = std::move(field);
  const std::string &ours = options_.document_field, &other = options_.other_document_field;
  if (other.empty() || fields_.contains(ours) || value.contains(ours)) return;
  const auto found = value.find(other);
  if (found == value.end() || value.contains("documents")) return;
  Json document = std::move(*found);
  value.erase(other);
  value[ours] = std::move(document);
}

// A row that a RowReader could not read has no id beyond its own, as it had none there.
bool InputReader::IsBadRowOfReader(const InputRow& row) const {
  if (options_.problem_field.empty()) return false;
  const auto found = row.value.find(options_.problem_field);
  return found != row.value.end() && found->is_object();
}

// What was found wrong before the row was written here.
void InputReader::TakeProblem(InputRow& row) const {
  if (options_.problem_field.empty() || row.problem || !row.value.is_object()) return;
  const auto found = row.value.find(options_.problem_field);
  if (found == row.value.end()) return;
  if (found->is_string()) {
    row.problem = {ErrorKind::kInput, found->get<std::string>()};
  } else if (found->is_object()) {
    row.problem = {KindNamed(found->value("kind", "")), found->value("message", "")};
  } else {
    return;
  }
  row.value.erase(found);
}

// Whether any row of the only file has an id; what comes through a pipe cannot be read twice. Lines
// that do not have the field's name in them are not looked at any closer.
bool InputReader::SomeRowBringsId() const {
  const std::string& file = options_.files.front();
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return false;
  const auto renamed = fields_.find("id");
  const std::string name = renamed == fields_.end() ? "id" : renamed->second;
  const std::string mark = options_.limit < 0 ? Json(name).dump() : std::string();
  try {
    const std::unique_ptr<InputRows> rows = OpenRows(file, options_, cancelled_, mark);
    InputRow row;
    for (std::int64_t read = 0; read != options_.limit && rows->Next(row); ++read) {
      const auto id = row.value.find(name);
      if (id != row.value.end() && !id->is_null()) return true;
      row = InputRow();
    }
  } catch (const Error&) {  // whoever reads the rows says what is wrong
  }
  return false;
}

// A row without an id gets its number; among rows that have ids also its file, so that its number
// is not taken for one of theirs.
void InputReader::GiveId(InputRow& row, bool blank_is_none) {
  const auto id = row.value.find("id");
  const bool none = id == row.value.end() || id->is_null() || (blank_is_none && *id == "");
  const bool has_column = blank_is_none && id != row.value.end();
  if (!none || has_column) has_ids_ = true;
  if (!none) return;
  if (row.line == 0) {
    row.value["id"] = row.file == "standard input" ? "stdin" : row.file;
    return;
  }
  const std::int64_t number = row.number > 0 ? row.number : row.line;
  const bool one_file = options_.files.size() == 1;
  if (one_file && !has_ids_) has_ids_ = !blank_is_none && SomeRowBringsId();
  if (one_file && !*has_ids_) {
    row.value["id"] = number;
  } else {
    row.value["id"] = fmt::format("{}:{}", row.file, number);
  }
}

void InputReader::OpenNext() {
  const std::string& opened = options_.files[next_file_++];
  fields_ = options_.FieldsOf(opened);
  rows_ = OpenRows(opened, options_, cancelled_);
}

TableHeader InputReader::Header() {
  std::error_code none;
  const bool one = options_.files.size() == 1;
  if (one && !std::filesystem::is_regular_file(options_.files.front(), none)) {
    if (!rows_) OpenNext();
    return {rows_->Columns(), rows_->delimiter()};
  }
  TableHeader header;
  bool first = true;
  for (const std::string& file : options_.files) {
    const auto kind = KnownKind(file, options_);
    const bool plain = std::filesystem::is_regular_file(file, none);
    if (plain && kind && *kind != InputKind::kCsv && *kind != InputKind::kTsv) return {};
    if (!plain) return {};
    try {
      const std::unique_ptr<InputRows> rows = OpenRows(file, options_, cancelled_);
      const std::vector<std::string> names = rows->Columns();
      if (names.empty()) return {};
      const bool same = std::exchange(first, false) || header.delimiter == rows->delimiter();
      header.delimiter = same ? rows->delimiter() : '\0';
      for (const std::string& name : names) {
        if (std::ranges::find(header.columns, name) == header.columns.end()) {
          header.columns.push_back(name);
        }
      }
    } catch (const Error&) {  // its error row says what is wrong
    }
  }
  return header;
}

bool InputReader::Next(InputRow& row) {
  while (rows_ || next_file_ < options_.files.size()) {
    row = InputRow();
    bool found = false;
    bool document = false, blank_is_none = false;
    // A file that cannot be read any further is one bad row; the other files go on.
    try {
      if (!rows_) OpenNext();
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
      if (row.problem->kind == ErrorKind::kUsage) {
        if (options_.files.size() == 1) throw;
        row.problem->kind = ErrorKind::kInput;
      }
      row.ends_file = true;
      row.line = rows_ ? rows_->line() + 1 : 0;
      row.value = Json::object();
      if (rows_) finished_bytes_ += rows_->position();
      rows_.reset();
    }
    const std::string& file = options_.files[next_file_ - 1];
    const auto name = options_.names.find(file);
    row.file = name != options_.names.end() ? name->second : file == "-" ? "standard input" : file;
    row.index = next_index_++;
    if (options_.keep_given && blank_is_none) row.given = row.value;
    if (!document) Rename(row.value);
    const bool was_read = !row.problem && !IsBadRowOfReader(row);
    if (was_read || document || row.line == 0) GiveId(row, blank_is_none);
    TakeProblem(row);
    return true;
  }
  return false;
}

Json IdOf(const Json& row) {
  const auto it = row.find("id");
  if (it == row.end() || it->is_null()) {
    Throw(ErrorKind::kInput, "expected the field 'id', found none");
  }
  if (!it->is_string() && !IsNumber(*it)) {
    Throw(ErrorKind::kInput, "'id': expected a text or a number, found {}", TypeName(*it));
  }
  if (it->is_string() && it->get_ref<const std::string&>().empty()) {
    Throw(ErrorKind::kInput, "'id' is empty");
  }
  return *it;
}

std::string AdapterOfRow(const InputRow& row, const Model& model) {
  if (model.parts().variants.size() < 2) return "";
  const auto field = row.value.find("adapter");
  if (field == row.value.end() || field->is_null()) return "";
  if (!field->is_string()) {
    Throw(ErrorKind::kInput, "'adapter': expected an adapter's name, found {}", TypeName(*field));
  }
  std::string name = field->get<std::string>();
  model.parts().VariantOf(name);  // throws for a name that there is not
  return name;
}

}  // namespace banyan
