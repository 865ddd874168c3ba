#include "tasks/table/row_labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "tasks/output/carried_fields.h"
#include "tasks/table/table_task.h"

namespace banyan {

std::optional<size_t> LabelOfRow(const TableAskOptions& table, const nlohmann::ordered_json& row,
                                 size_t number) {
  using OrderedJson = nlohmann::ordered_json;
  const auto found = row.find(CarriedNames(TableOperatorName(table.op)).Of(table.label));
  if (found == row.end() || found->is_null() || *found == "") return std::nullopt;
  if (table.op != TableOperator::kFilter) {
    const std::string text = found->is_string() ? found->get<std::string>() : found->dump();
    const auto label = std::ranges::find(table.labels, text);
    if (label == table.labels.end()) {
      Throw(ErrorKind::kInput,
            "row {} of the table: the label in '{}': expected one of {}, found {}", number + 1,
            table.label, fmt::join(table.labels, ", "), found->dump());
    }
    return static_cast<size_t>(label - table.labels.begin());
  }
  for (const OrderedJson& yes : {OrderedJson(true), OrderedJson("true"), OrderedJson("yes"),
                                 OrderedJson("1"), OrderedJson(1)}) {
    if (*found == yes) return 0;
  }
  for (const OrderedJson& no : {OrderedJson(false), OrderedJson("false"), OrderedJson("no"),
                                OrderedJson("0"), OrderedJson(0)}) {
    if (*found == no) return 1;
  }
  Throw(ErrorKind::kInput,
        "row {} of the table: the label in '{}': expected true or false, found {}", number + 1,
        table.label, found->dump());
}

}  // namespace banyan
