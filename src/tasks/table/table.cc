// `map`, `filter`, `rank` and `group` as library calls: the table is read and planned, then asked.
#include "banyan/table.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/error.h"
#include "tasks/input/input.h"
#include "tasks/job/job.h"
#include "tasks/options/task_options.h"
#include "tasks/table/calibrated_rows.h"
#include "tasks/table/pairwise_rank.h"
#include "tasks/table/table_finish.h"
#include "tasks/table/table_run.h"
#include "tasks/table/table_task.h"
#include "tasks/table/table_template.h"

namespace banyan {
std::vector<std::string> TableColumnsOf(const TableAskOptions& table) {
  const TableTemplate prompt(table, {});
  std::vector<std::string> columns = prompt.columns();
  columns.insert(columns.end(), prompt.more_fields().begin(), prompt.more_fields().end());
  return columns;
}

std::vector<std::vector<std::string>> NeededColumns(const TableAskOptions& table,
                                                    const JobOptions& job) {
  return TableTemplate(table, job.fields).Needed();
}

void CheckTable(const EngineOptions& engine_options, const TableAskOptions& table,
                const JobOptions& job) {
  const TableTemplate prompt(table, job.fields);
  CheckValues(table);
  AskOptions ask = table.ask;
  if (!ask.prompt_template.empty() || !ask.question_list.empty() || !ask.questions_name.empty()) {
    Throw(ErrorKind::kUsage,
          "{}: its prompt is all that is asked; expected no template and no "
          "questions besides",
          TableOperatorName(table.op));
  }
  if (table.op == TableOperator::kFilter && !table.labels.empty()) {
    Throw(ErrorKind::kUsage, "--choices: a filter says yes or no; 'banyan map' chooses");
  }
  if (table.labels.size() == 1) {
    Throw(ErrorKind::kUsage, "--choices: expected two or more, found only '{}'",
          table.labels.front());
  }
  for (size_t i = 0; i < table.labels.size(); ++i) {
    if (std::ranges::count(table.labels, table.labels[i]) > 1) {
      Throw(ErrorKind::kUsage, "--choices: '{}' comes twice", table.labels[i]);
    }
  }
  if (table.op != TableOperator::kFilter && (table.all || table.threshold != 0.5)) {
    Throw(ErrorKind::kUsage, "{}: is of 'banyan filter'; {} writes every row",
          table.all ? "--all" : "--threshold", TableOperatorName(table.op));
  }
  const bool promises = table.recall > 0.0 || table.precision > 0.0;
  if (table.op != TableOperator::kFilter && promises) {
    Throw(ErrorKind::kUsage, "--recall, --precision: are of 'banyan filter'");
  }
  const bool calibrates = table.op == TableOperator::kFilter ||
                          (table.op == TableOperator::kMap && !table.labels.empty());
  if (!table.label.empty() && !calibrates) {
    Throw(ErrorKind::kUsage, "--label: is of 'banyan filter', and of 'banyan map' with --choices");
  }
  if (table.op != TableOperator::kRank && table.top != 0) {
    Throw(ErrorKind::kUsage, "--top: is of 'banyan rank'");
  }
  if (table.pairwise && table.op != TableOperator::kRank) {
    Throw(ErrorKind::kUsage, "--pairwise: is of 'banyan rank'");
  }
  if (table.pairwise && (!table.labels.empty() || job.shards > 1)) {
    Throw(ErrorKind::kUsage, "--pairwise: {}",
          table.labels.empty() ? "compares rows of the whole table; without --shard"
                               : "asks of which row the statement is more true; without --choices");
  }
  for (const std::string& label : table.labels) {
    char* end = nullptr;
    if (table.op != TableOperator::kRank) break;
    if (!std::isfinite(std::strtod(label.c_str(), &end)) || *end != '\0') {
      Throw(ErrorKind::kUsage,
            "--choices: expected numbers, whose expected value is the score; "
            "found '{}'",
            label);
    }
  }
  ask.question_list = {"-"};  // stands for the prompt
  CheckAsk(engine_options, ask);
}

JobReceipt RunTable(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                    const TableAskOptions& table, const JobOptions& options) {
  const JobOptions job = JobForTables(options);
  CheckTable(engine_options, table, job);
  const bool calibrates = !table.label.empty();
  if (!calibrates && (table.op == TableOperator::kMap || table.op == TableOperator::kFilter)) {
    return RunTableRows(std::move(model), engine_options, table, job);
  }
  CheckStagedJob(job);
  const RowsFile rows(job.output);
  if (rows.temporary() && job.resume) {
    Throw(ErrorKind::kUsage, "{}: cannot resume: it is no file", job.output);
  }
  const JobOptions of_rows = rows.JobOf(job);
  TableAskOptions of_all = table;
  of_all.all = table.op == TableOperator::kFilter;
  JobReceipt receipt = RunTableRows(model, engine_options, of_all, of_rows);
  receipt.output = job.output;
  if (receipt.end != JobEnd::kComplete) return receipt;
  receipt.finished_before = false;
  if (calibrates) {
    WriteCalibrated(table, rows.path(), job, receipt);
    return receipt;
  }
  if (table.op == TableOperator::kGroup) {
    WriteGroups(table, rows.path(), job);
    return receipt;
  }
  RankedPlaces places = PlacesByScore(rows.path());
  if (table.pairwise) {
    SortByPairs(model, engine_options, table, job, rows.path(), places, receipt);
    if (receipt.end != JobEnd::kComplete) return receipt;
  }
  WriteRanked(table, rows.path(), places, job);
  return receipt;
}

JobEstimate EstimateTable(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                          const TableAskOptions& table, const JobOptions& options) {
  JobOptions job = JobForTables(options);
  CheckTable(engine_options, table, job);
  CheckJob(job);
  TableRun run(model, table, job);
  if (job.explain) job.explain(run.plan->Explain());
  const std::unique_ptr<RowSource> rows = run.plan->Rows();
  JobEstimate estimate = EstimateJob(model, engine_options, *run.task, run.job, *rows);
  if (!table.pairwise) return estimate;
  std::vector<std::string> texts;
  const std::unique_ptr<RowSource> again = run.plan->Rows();
  for (InputRow row; again->Next(row);) {
    if (!row.problem) texts.push_back(ComparedText(run.prompt, row.value));
  }
  EstimatePairs(model, engine_options, table, job, texts, estimate);
  return estimate;
}

std::string ShowTablePrompts(std::shared_ptr<Model> model, const TableAskOptions& table,
                             const JobOptions& options) {
  JobOptions job = JobForTables(options);
  if (job.limit < 0) job.limit = 1;
  CheckJob(job);
  TableRun run(model, table, job);
  const std::unique_ptr<RowSource> rows = run.plan->Rows();
  return ShowTaskPrompts(*model->text(), *run.task, *rows, job.limit);
}

}  // namespace banyan
