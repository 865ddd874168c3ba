// A row as a line of JSONL or CSV.
#include <array>

#include "base/csv.h"
#include "tasks/output.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array kFirstColumns = {"id", "question_id", "answer", "finish_reason", "tokens"};

std::string Dump(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace

std::string JobOutput::CsvHeader() const {
  std::vector<std::string> names(kFirstColumns.begin(), kFirstColumns.end());
  names.insert(names.end(), options_.columns.begin(), options_.columns.end());
  names.insert(names.end(), {"error_kind", "error_message", "error_file", "error_line", "more"});
  return CsvRow(names);
}

std::string JobOutput::Format(const OutputRow& row) const {
  return csv_ ? CsvText(row) : Dump(row.fields) + "\n";
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
      cells.push_back(it->is_string() ? it->get<std::string>() : Dump(*it));
    }
    if (it != from.end()) from.erase(name);
  };
  for (const char* name : kFirstColumns) put(more, name);
  for (const std::string& name : options_.columns) put(more, name);
  OrderedJson error = more.contains("error") ? more["error"] : OrderedJson::object();
  more.erase("error");
  for (const char* name : {"kind", "message", "file", "line"}) put(error, name);
  cells.push_back(more.empty() ? "" : Dump(more));
  return CsvRow(cells);
}

}  // namespace banyan
