// `banyan extract` as a library call.
#include "banyan/extract.h"

#include "base/error.h"
#include "tasks/extract/extract_task.h"
#include "tasks/job/job.h"
#include "tasks/job/job_estimate.h"

namespace banyan {

JobReceipt RunExtract(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                      const ExtractOptions& extract, const JobOptions& job) {
  const JobOptions documents = OfDocuments(job);
  CheckJob(documents);
  ExtractOptions options = extract;
  options.flat = options.flat || OutputFormatOf(job) != OutputFormat::kJsonLines;
  ExtractTask task(model, options);
  return JobRunner(model, engine_options, task, documents).Run();
}

JobEstimate EstimateExtract(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                            const ExtractOptions& extract, const JobOptions& job) {
  const JobOptions documents = OfDocuments(job);
  CheckJob(documents);
  ExtractTask task(model, extract);
  return EstimateJob(model, engine_options, task, documents);
}

std::string ShowExtractPrompt(std::shared_ptr<Model> model, const ExtractOptions& extract,
                              const JobOptions& job) {
  ExtractTask task(std::move(model), extract);
  InputReader input(InputOf(OfDocuments(job)));
  std::vector<InputRow> rows;
  InputRow row;
  while (rows.size() < static_cast<size_t>(extract.stack) && input.Next(row)) {
    if (row.problem) continue;
    if (!rows.empty() && task.StackName(row) != task.StackName(rows.front())) break;
    rows.push_back(row);
  }
  if (!rows.empty()) return task.ShowPrompt(rows);
  Throw(ErrorKind::kUsage, "--show-prompt: the input has no document");
}

}  // namespace banyan
