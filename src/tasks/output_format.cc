// A row as a line of JSONL or CSV.
#include <array>
#include <cstdlib>
#include <string_view>

#include "banyan/visible.h"
#include "base/csv.h"
#include "base/json_row.h"
#include "tasks/output.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array kFirstColumns = {"id", "question_id", "answer", "finish_reason", "tokens"};

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

}  // namespace

std::string JobOutput::CsvHeader() const {
  std::vector<std::string> names(kFirstColumns.begin(), kFirstColumns.end());
  names.insert(names.end(), options_.columns.begin(), options_.columns.end());
  names.insert(names.end(), {"error_kind", "error_message", "error_file", "error_line", "more"});
  return CsvRow(names);
}

std::string JobOutput::Format(const OutputRow& row) const {
  const std::string text = csv_ ? CsvText(row) : DumpJson(row.fields) + "\n";
  return for_terminal_ ? Visible(text) : text;
}

// What has no column stands in the last one as JSON.
std::string JobOutput::CsvText(const OutputRow& row) const {
  OrderedJson more = row.fields;
  std::vector<std::string> cells;
  const auto put = [&](OrderedJson& from, const std::string& name) {
    const auto it = from.find(name);
    if (it == from.end() || it->is_null()) {
      cells.emplace_back();
    } else {
      cells.push_back(it->is_string() ? it->get<std::string>() : DumpJson(*it));
    }
    if (it != from.end()) from.erase(name);
  };
  for (const char* name : kFirstColumns) put(more, name);
  for (const std::string& name : options_.columns) put(more, name);
  OrderedJson error = more.contains("error") ? more["error"] : OrderedJson::object();
  more.erase("error");
  for (const char* name : {"kind", "message", "file", "line"}) put(error, name);
  cells.push_back(more.empty() ? "" : DumpJson(more));
  for (std::string& cell : cells) {
    if (options_.csv_safe && LooksLikeFormula(cell)) cell.insert(0, "'");
  }
  return CsvRow(cells);
}

}  // namespace banyan
