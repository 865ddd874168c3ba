// Rows of `map` and `filter`: what the input's row has, and the answer.
#pragma once

#include <string>

#include "banyan/table.h"
#include "base/json.h"
#include "tasks/input/input.h"
#include "tasks/job/task.h"
#include "tasks/output/row_format.h"

namespace banyan {

// What is kept of a row of the input until its answer is there.
struct TableRow {
  explicit TableRow(const InputRow& row);
  Json id;       // null: it has none that is one
  Json carried;  // its other fields
  RowPlace place;
};

// `answer`: the row that `ask` gives for the prompt, without a problem.
OutputRow TableAnswerRow(const TableAskOptions& options, const TableRow& row,
                         const OutputRow& answer);
OutputRow TableErrorRow(const TableAskOptions& options, const TableRow& row,
                        const RowProblem& problem);
TableColumns ColumnsOfTable(const TableAskOptions& options);

}  // namespace banyan
