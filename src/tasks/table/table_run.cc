#include "tasks/table/table_run.h"

#include <algorithm>
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

void AddPass(const JobReceipt& pass, JobReceipt& receipt) {
  if (receipt.first_error.empty()) receipt.first_error = pass.first_error;
  receipt.engine.prompt_tokens += pass.engine.prompt_tokens;
  receipt.engine.prefilled_tokens += pass.engine.prefilled_tokens;
  receipt.engine.copied_tokens += pass.engine.copied_tokens;
  receipt.engine.generated_tokens += pass.engine.generated_tokens;
  receipt.engine.decode_rows += pass.engine.decode_rows;
  receipt.engine.steps += pass.engine.steps;
  receipt.engine.streams += pass.engine.streams;
  receipt.engine.plan_seconds += pass.engine.plan_seconds;
  receipt.engine.forward_seconds += pass.engine.forward_seconds;
  receipt.engine.choose_seconds += pass.engine.choose_seconds;
  receipt.engine.limit_seconds += pass.engine.limit_seconds;
  receipt.engine.predicted_seconds += pass.engine.predicted_seconds;
  receipt.shared_tokens += pass.shared_tokens;
  receipt.unwritten_tokens += pass.unwritten_tokens;
  receipt.equal_prompts += pass.equal_prompts;
  receipt.seconds += pass.seconds;
  receipt.input_seconds += pass.input_seconds;
  receipt.output_seconds += pass.output_seconds;
  receipt.memory_bytes_peak = std::max(receipt.memory_bytes_peak, pass.memory_bytes_peak);
}

}  // namespace banyan
