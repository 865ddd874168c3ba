#include "tasks/table/table_run.h"

#include <utility>

#include "base/error.h"
#include "tasks/input/input.h"
#include "tasks/job/job.h"

namespace banyan {

JobOptions JobForTables(JobOptions job) {
  job.ordered = true;
  job.document_field = "text";
  job.other_document_field.clear();
  return WithIdColumn(std::move(job));
}

TableRun::TableRun(std::shared_ptr<Model> model, const TableAskOptions& table,
                   const JobOptions& options)
    : job(options), prompt(table, job.fields) {
  if (model->text() == nullptr) {
    Throw(ErrorKind::kUnsupported, "{}: the model's files have no tokenizer",
          TableOperatorName(table.op));
  }
  TablePlan::Options planning;
  planning.order = table.order;
  planning.limit = job.limit;
  planning.counts_tokens = job.explain != nullptr;
  planning.stop = job.stop;
  InputReader reader(RowsOf(job));
  plan = std::make_unique<TablePlan>(prompt, *model->text(), reader, planning);
  task = std::make_unique<TableTask>(std::move(model), table, prompt, *plan);
}

JobReceipt RunTableRows(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        const TableAskOptions& table, const JobOptions& job,
                        const TablePass& pass) {
  CheckJob(job);
  TableRun run(model, table, job);
  if (job.explain) job.explain(run.plan->Explain());
  JobRunner runner(std::move(model), engine_options, *run.task, run.job,
                   {run.plan->Rows(pass.wanted), pass.keep_others});
  JobReceipt receipt = runner.Run();
  if (run.task->most_stacked() > 1) receipt.equal_prompts = run.plan->equal_prompts();
  return receipt;
}

}  // namespace banyan
