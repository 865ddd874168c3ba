#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/csv.h"
#include "base/error.h"
#include "base/json.h"
#include "base/output_file.h"
#include "tasks/input/input.h"
#include "tasks/output/carried_fields.h"
#include "tasks/output/row_format.h"

namespace banyan {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array kErrorColumns = {"error_kind", "error_message", "error_file", "error_line"};

constexpr std::array<std::pair<std::string_view, OutputFormat>, 6> kNames = {{
    {"jsonl", OutputFormat::kJsonLines},
    {"csv", OutputFormat::kCsv},
    {"tsv", OutputFormat::kTsv},
    {"md", OutputFormat::kMarkdown},
    {"ndjson", OutputFormat::kJsonLines},
    {"json", OutputFormat::kJsonLines},
}};
constexpr size_t kFormats = 4;  // the names before other spellings of them

// A spreadsheet takes a cell that begins like this for a formula; numbers it may have.
bool LooksLikeFormula(const std::string& cell) {
  if (cell.empty() || std::string_view("=+-@\t\r").find(cell.front()) == std::string_view::npos) {
    return false;
  }
  char* end = nullptr;
  std::strtod(cell.c_str(), &end);
  const bool number =
      end == cell.c_str() + cell.size() && cell.front() != '\t' && cell.front() != '\r';
  return !number;
}

template <typename AnyJson>
std::string CellText(const AnyJson& value) {
  if (value.is_null()) return {};
  return value.is_string() ? value.template get<std::string>() : DumpJson(value);
}

// A cell of a Markdown table is one line and has no bars.
std::string MarkdownCell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|' || c == '\\') cell += '\\';
    if (c == '\n') {
      cell += "<br>";
    } else if (c != '\r') {
      cell += c;
    }
  }
  return cell;
}

std::string MarkdownRow(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + MarkdownCell(cell) + " |";
  return line + "\n";
}

}  // namespace

std::string OutputRow::error_message() const {
  const auto found = fields.find("error");
  if (!error || found == fields.end()) return {};
  return found->is_object() && found->contains("message") ? CellText(found->at("message"))
                                                          : CellText(*found);
}

std::vector<InputColumn> BesideTask(const std::vector<std::string>& input, const std::string& task,
                                    const TableColumns& columns,
                                    const std::map<std::string, std::string>& renamed) {
  constexpr std::array<std::string_view, 4> kFields = {"id", "question_id", "question", "category"};
  const auto may_be_field = [&](const std::string& name) {
    return std::ranges::find(kFields, name) != kFields.end();
  };
  std::vector<std::string> ours(kErrorColumns.begin(), kErrorColumns.end());
  std::ranges::copy_if(columns.all, std::back_inserter(ours), std::not_fn(may_be_field));
  const CarriedNames names(task, ours);
  std::vector<InputColumn> beside;
  for (const std::string& name : input) {
    const bool of_task = std::ranges::find(columns.all, name) != columns.all.end();
    const bool displaced = renamed.contains(name) && renamed.at(name) != name;
    const bool is_field = of_task && !displaced && may_be_field(name);
    const std::string shown = displaced ? FreeInputName(name, input) : names.Of(name);
    beside.push_back({name, is_field ? name : shown, is_field});
  }
  return beside;
}

OutputFormat OutputFormatOf(const JobOptions& options) {
  if (!options.output_format.empty()) {
    for (size_t i = 0; i < kFormats; ++i) {
      if (options.output_format == kNames[i].first) return kNames[i].second;
    }
    Throw(ErrorKind::kUsage, "--output-format: expected jsonl, csv, tsv or md; found '{}'",
          options.output_format);
  }
  std::error_code none;
  const bool device = std::filesystem::exists(options.output, none) &&
                      !std::filesystem::is_regular_file(options.output, none);
  if (options.output == "-" || device) return OutputFormat::kJsonLines;
  std::filesystem::path name = std::filesystem::path(options.output).filename();
  if (PackingOf(options.output) != Packing::kNone) name = name.stem();
  const std::string ending = name.extension().string();
  if (ending.empty()) return OutputFormat::kJsonLines;
  for (const auto& [known, format] : kNames) {
    if (ending.substr(1) == known) return format;
  }
  Throw(ErrorKind::kUsage,
        "{}: the ending '{}' names no format that is written here: expected .jsonl, .csv, .tsv or "
        ".md (and .gz or .zst after it), or --output-format",
        options.output, ending);
}

RowFormat::RowFormat(const JobOptions& options, TableColumns columns)
    : format_(OutputFormatOf(options)),
      csv_safe_(options.csv_safe),
      wanted_(options.columns),
      columns_(std::move(columns)) {
  const char csv_delimiter = options.delimiter == 0 ? ',' : options.delimiter;
  delimiter_ = format_ == OutputFormat::kTsv ? '\t' : csv_delimiter;
}

std::string RowFormat::name() const {
  for (const auto& [name, format] : kNames) {
    if (format == format_) return std::string(name);
  }
  return {};
}

std::vector<std::string> RowFormat::ColumnNames() const {
  std::vector<std::string> names =
      format_ == OutputFormat::kMarkdown ? columns_.shown : columns_.all;
  for (const InputColumn& column : columns_.input) {
    if (column.is_field) std::erase(names, column.name);
  }
  names.insert(names.end(), wanted_.begin(), wanted_.end());
  return names;
}

std::string RowFormat::Header() const {
  if (!is_table()) return {};
  std::vector<std::string> names = ColumnNames();
  if (format_ == OutputFormat::kMarkdown) {
    names.emplace_back("error");
    std::string rule = "|";
    for (size_t i = 0; i < names.size(); ++i) rule += "---|";
    return MarkdownRow(names) + rule + "\n";
  }
  std::vector<std::string> before;
  for (const InputColumn& column : columns_.input) before.push_back(column.shown);
  names.insert(names.begin(), before.begin(), before.end());
  names.insert(names.end(), kErrorColumns.begin(), kErrorColumns.end());
  names.emplace_back("more");
  return CsvRow(names, delimiter_);
}

std::string RowFormat::Line(const OutputRow& row) {
  for (const std::string& name : wanted_) {
    if (row.fields.contains(name)) used_.insert(name);
  }
  if (format_ == OutputFormat::kJsonLines) return DumpJson(row.fields) + "\n";
  return format_ == OutputFormat::kMarkdown ? MarkdownLine(row) : CsvLine(row);
}

// What has no column stands in the last one as JSON.
std::string RowFormat::CsvLine(const OutputRow& row) {
  OrderedJson more = row.fields;
  std::vector<std::string> cells;
  const auto put = [&](OrderedJson& from, const std::string& name) {
    const auto it = from.find(name);
    cells.push_back(it == from.end() ? std::string() : CellText(*it));
    if (it != from.end()) from.erase(name);
  };
  for (const InputColumn& column : columns_.input) {
    if (column.is_field) {
      put(more, column.name);
      continue;
    }
    const bool there = row.given && row.given->contains(column.name);
    cells.push_back(there ? CellText(row.given->at(column.name)) : std::string());
    more.erase(column.shown);  // it was carried through
    if (std::ranges::find(kErrorColumns, column.name) != kErrorColumns.end()) {
      more.erase(column.name);
    }
  }
  for (const std::string& name : ColumnNames()) put(more, name);
  OrderedJson error = more.contains("error") ? more["error"] : OrderedJson::object();
  more.erase("error");
  for (const char* name : {"kind", "message", "file", "line"}) put(error, name);
  cells.push_back(more.empty() ? "" : DumpJson(more));
  for (std::string& cell : cells) {
    if (csv_safe_ && LooksLikeFormula(cell)) cell.insert(0, "'");
  }
  return CsvRow(cells, delimiter_);
}

std::string RowFormat::MarkdownLine(const OutputRow& row) {
  std::vector<std::string> cells;
  for (const std::string& name : ColumnNames()) {
    cells.push_back(row.fields.contains(name) ? CellText(row.fields.at(name)) : std::string());
  }
  cells.push_back(row.error_message());
  return MarkdownRow(cells);
}

std::vector<std::string> RowFormat::UnusedColumns() const {
  std::vector<std::string> unused;
  for (const std::string& name : wanted_) {
    if (!used_.contains(name)) unused.push_back(name);
  }
  return unused;
}

double SumOf(const std::vector<float>& values) {
  double sum = 0.0;
  for (const float value : values) sum += value;
  return sum;
}

double MeanOf(const std::vector<float>& values) {
  return values.empty() ? 0.0 : SumOf(values) / static_cast<double>(values.size());
}

Json RowNumber(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::stod(fmt::format("{}", static_cast<float>(value)));
}

Json RowNumbers(const std::vector<float>& values) {
  Json list = Json::array();
  for (const float value : values) list.push_back(RowNumber(value));
  return list;
}

Json RowProbability(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::round(value * 1e4) / 1e4;
}

}  // namespace banyan
