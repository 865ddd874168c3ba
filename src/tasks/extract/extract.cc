// `banyan extract` as library calls: a job, its estimate, and what the model would be given.
#include "banyan/extract.h"

#include <utility>

#include "base/error.h"
#include "tasks/extract/extract_task.h"
#include "tasks/job/job.h"

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

void WriteExtractLayouts(std::shared_ptr<Model> model, const ExtractOptions& extract,
                         const JobOptions& job,
                         const std::function<void(const std::string&)>& write) {
  const JobOptions documents = OfDocuments(job);
  CheckJob(documents);
  ExtractTask task(std::move(model), extract);
  InputReader input(InputOf(documents));
  std::vector<InputRow> stack;
  InputRow row;
  for (std::int64_t read = 0; (job.limit < 0 || read < job.limit) && input.Next(row); ++read) {
    if (row.problem) throw Error(row.problem->kind, row.problem->message);
    const bool full = stack.size() == static_cast<size_t>(extract.stack) ||
                      (!stack.empty() && task.StackName(row) != task.StackName(stack.front()));
    if (full) {
      for (const std::string& line : task.Layouts(stack)) write(line);
      stack.clear();
    }
    stack.push_back(row);
  }
  if (stack.empty()) return;
  for (const std::string& line : task.Layouts(stack)) write(line);
}

}  // namespace banyan
