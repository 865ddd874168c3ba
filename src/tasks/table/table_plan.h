// A whole table, read before anything is asked: which order its columns and rows have, which
// prompts are equal, and what that saves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/job.h"
#include "banyan/table.h"
#include "banyan/text.h"
#include "tasks/input/input.h"
#include "tasks/table/column_order.h"
#include "tasks/table/row_spool.h"
#include "tasks/table/table_template.h"

namespace banyan {

class TablePlan {
 public:
  struct Options {
    TableOrder order = TableOrder::kGiven;
    std::int64_t limit = -1;     // rows of the input
    bool counts_tokens = false;  // for Explain, where the order does not need them
    std::function<bool()> stop;  // true ends the reading; may be empty
  };

  // Reads all of `source`. Rows without a column, and second ones of an id, get a problem. The
  // template must outlive it.
  TablePlan(const TableTemplate& prompt, const Text& text, RowSource& source,
            const Options& options);

  // The order of the columns of a row that has no problem. `index`: InputRow::index.
  const ColumnOrder& OrderOf(std::int64_t index) const;
  // The rows, in the order in which they are to be computed; equal prompts follow one another. Rows
  // with a problem come first. `wanted` (may be empty) says by the index which of them come.
  // REQUIRES: the plan outlives it.
  using Wanted = std::function<bool(std::int64_t index)>;
  std::unique_ptr<RowSource> Rows(const Wanted& wanted = {}) const;

  std::int64_t rows() const { return static_cast<std::int64_t>(spool_.size()); }
  bool stopped() const { return stopped_; }
  // Rows whose prompt an earlier one has.
  std::int64_t equal_prompts() const;
  // Tokens of the columns before and after, and that no order has fewer; the orders.
  std::string Explain() const;

 private:
  class PlannedRows;

  // What a row's key in the journal has besides, where its columns are not in the given order.
  std::string OrderKey(std::int64_t index) const;

  const TableTemplate& prompt_;
  const bool counts_tokens_;
  RowSpool spool_;
  TableHeader header_;
  bool stopped_ = false;
  CellTable cells_;                      // of rows without a problem: columns, further fields
  std::vector<std::uint32_t> rows_of_;   // [cells_.rows()]: their numbers in the spool
  std::vector<std::int32_t> cells_of_;   // [rows]: their numbers in cells_; -1: a problem
  std::vector<std::uint32_t> problems_;  // numbers in the spool
  OrderedTable order_;
};

}  // namespace banyan
