// What a labelled sample says of rows that a job has written: the column of --label.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "banyan/table.h"
#include "base/json.h"

namespace banyan {

// Of a filter: 0 where the statement is true of the row and 1 where it is not, as "yes" and "no"
// stand in its prompt. Otherwise: which of `table.labels`. Nothing: the cell is empty, or there is
// no such column. Throws kInput for what is neither, naming row `number` (from 0).
std::optional<size_t> LabelOfRow(const TableAskOptions& table, const nlohmann::ordered_json& row,
                                 size_t number);

}  // namespace banyan
