// One pass of a job over a table: read, planned, asked.
#pragma once

#include <memory>

#include "banyan/job.h"
#include "banyan/model.h"
#include "banyan/table.h"
#include "tasks/table/table_plan.h"
#include "tasks/table/table_task.h"
#include "tasks/table/table_template.h"

namespace banyan {

// Rows come in the input's order, and columns have the names that the input has; a document's text
// is the column `text`.
JobOptions JobForTables(JobOptions job);

// Everything of a pass, in the order in which it needs each other. `job`: as JobForTables made it.
struct TableRun {
  TableRun(std::shared_ptr<Model> model, const TableAskOptions& table, const JobOptions& options);

  const JobOptions job;
  const TableTemplate prompt;
  std::unique_ptr<TablePlan> plan;
  std::unique_ptr<TableTask> task;
};

struct TablePass {
  TablePlan::Wanted wanted;  // only these rows; empty: all
  bool keep_others = false;  // what earlier passes wrote of other rows stays
};
JobReceipt RunTableRows(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        const TableAskOptions& table, const JobOptions& job,
                        const TablePass& pass = {});
// Adds what another pass of the same job computed: tokens, steps, times; its first error, where
// `receipt` has none.
void AddPass(const JobReceipt& pass, JobReceipt& receipt);

}  // namespace banyan
