// `map`, `filter`, `rank` and `group` as a task of the job runner: a record is all rows with one
// prompt, which is asked once.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "banyan/table.h"
#include "tasks/ask/ask_task.h"
#include "tasks/job/task.h"
#include "tasks/table/table_plan.h"
#include "tasks/table/table_template.h"

namespace banyan {

// "map", "filter", "rank", "group".
std::string TableOperatorName(TableOperator op);

class TableTask : public Task {
 public:
  // All rows that are started are of the plan's table. Template and plan must outlive it. Throws as
  // AskTask.
  TableTask(std::shared_ptr<Model> model, const TableAskOptions& options,
            const TableTemplate& prompt, const TablePlan& plan);

  std::string name() const override { return TableOperatorName(options_.op); }
  Json Parameters() const override;
  std::string Identity(const InputRow& row) const override;
  std::unique_ptr<RecordWork> Start(const InputRow& row) override { return StartStack({&row, 1}); }
  // Draws are each row's own.
  int most_stacked() const override;
  std::string StackName(const InputRow& row) const override;
  std::unique_ptr<RecordWork> StartStack(std::span<const InputRow> rows) override;
  TableColumns Columns() const override;
  OutputRow ErrorRow(const InputRow& row, const RowProblem& problem) const override;

 private:
  const TableAskOptions options_;
  const TableTemplate& prompt_;
  const TablePlan& plan_;
  AskTask ask_;
};

}  // namespace banyan
