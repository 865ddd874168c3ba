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

#include "base/characters.h"
#include "base/csv.h"
#include "base/error.h"
#include "base/json.h"
#include "base/output_file.h"
#include "tasks/input/input.h"
#include "tasks/output/carried_fields.h"
#include "tasks/output/row_format.h"
#include "text/unicode.h"

namespace banyan {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array kErrorColumns = {"error_kind", "error_message", "error_file", "error_line"};

constexpr std::array<std::pair<std::string_view, OutputFormat>, 7> kNames = {{
    {"jsonl", OutputFormat::kJsonLines},
    {"csv", OutputFormat::kCsv},
    {"tsv", OutputFormat::kTsv},
    {"md", OutputFormat::kMarkdown},
    {"text", OutputFormat::kText},
    {"ndjson", OutputFormat::kJsonLines},
    {"json", OutputFormat::kJsonLines},
}};
constexpr size_t kFormats = 5;  // the names before other spellings of them

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

// Names of files may be any bytes; tables are UTF-8, as JSON is.
std::string AsUtf8(std::string text) {
  if (IsValidUtf8(text)) return text;
  std::string repaired;
  AppendLossyUtf8(text, repaired);
  return repaired;
}

template <typename AnyJson>
std::string CellText(const AnyJson& value) {
  if (value.is_null()) return {};
  return value.is_string() ? AsUtf8(value.template get<std::string>()) : DumpJson(value);
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
      if (options.output_format != kNames[i].first) continue;
      if (kNames[i].second != OutputFormat::kText || options.output == "-") return kNames[i].second;
      Throw(ErrorKind::kUsage,
            "--output-format text: is for reading and goes to standard output, without -o");
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
    if (ending.substr(1) == known && format != OutputFormat::kText) return format;
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
  const char of_input = columns_.delimiter == 0 ? ',' : columns_.delimiter;
  const char csv_delimiter = options.delimiter == 0 ? of_input : options.delimiter;
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
  names.emplace_back("more");
  names.emplace_back("error");
  return CsvRow(names, delimiter_);
}

std::string RowFormat::Line(const OutputRow& row) {
  for (const std::string& name : wanted_) {
    if (row.fields.contains(name)) used_.insert(name);
  }
  if (format_ == OutputFormat::kJsonLines) return JsonLine(row);
  if (format_ == OutputFormat::kText) return TextLines(row);
  return format_ == OutputFormat::kMarkdown ? MarkdownLine(row) : CsvLine(row);
}

std::string RowFormat::JsonLine(const OutputRow& row) { return DumpJson(row.fields) + "\n"; }

// What has no column stands in the column `more` as JSON, an error with all of its parts.
std::string RowFormat::CsvLine(const OutputRow& row) {
  OrderedJson more = row.fields;
  std::vector<std::string> cells;
  const auto put = [&](OrderedJson& from, const std::string& name) {
    if (const auto it = from.find(name); it != from.end()) {
      cells.push_back(CellText(*it));
      from.erase(name);
      return;
    }
    const size_t dot = name.find('.');
    const auto outer = from.find(name.substr(0, dot));
    const std::string inner = dot == std::string::npos ? "" : name.substr(dot + 1);
    const bool there = outer != from.end() && outer->is_object() && outer->contains(inner);
    cells.push_back(there ? CellText(outer->at(inner)) : std::string());
    if (!there) return;
    outer->erase(inner);
    if (outer->empty()) from.erase(name.substr(0, dot));
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
  cells.push_back(more.empty() ? "" : DumpJson(more));
  cells.push_back(AsUtf8(row.error_message()));
  for (std::string& cell : cells) {
    if (csv_safe_ && LooksLikeFormula(cell)) cell.insert(0, "'");
  }
  return CsvRow(cells, delimiter_);
}

// The row's id, then a line for every other column: its name, its value and how sure that is.
std::string RowFormat::TextLines(const OutputRow& row) const {
  constexpr size_t kWidest = 24;  // names before values, in columns of the terminal
  const auto field = [&](const std::string& name) {
    const auto found = row.fields.find(name);
    return found == row.fields.end() ? OrderedJson() : *found;
  };
  std::string text = CellText(field("id"));
  std::ranges::replace(text, '\n', ' ');  // of a file's name
  text += "\n";
  if (row.error) return text + "  error: " + row.error_message() + "\n";
  const OrderedJson confidence = field("confidence"), reasons = field("reasons");
  const auto columns_of = [](const std::string& name) {
    return static_cast<size_t>(CountCharacters(name));
  };
  size_t width = 0;
  for (const std::string& name : columns_.shown) {
    if (name != "id") width = std::max(width, std::min(columns_of(name), kWidest));
  }
  for (const std::string& name : columns_.shown) {
    if (name == "id") continue;
    const OrderedJson value = field(name);
    const size_t columns = columns_of(name);
    text += "  " + name + std::string(columns < width ? width - columns : 0, ' ') + "  ";
    if (value.is_null()) {
      const bool why = reasons.is_object() && reasons.contains(name);
      text += fmt::format("({})", why ? CellText(reasons.at(name)) : "the text does not say");
    } else if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) text += (i > 0 ? "; " : "") + CellText(value[i]);
    } else {
      text += CellText(value);
    }
    const bool sure = confidence.is_object() && confidence.contains(name) &&
                      confidence.at(name).is_number() && !value.is_null();
    if (sure) text += fmt::format("  ({:.0f} % sure)", 100.0 * confidence.at(name).get<double>());
    text += "\n";
  }
  return text;
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
