// `banyan extract` as a library call.
#include "banyan/extract.h"

#include "base/error.h"
#include "tasks/extract_task.h"
#include "tasks/job.h"

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

std::string ShowExtractPrompt(std::shared_ptr<Model> model, const ExtractOptions& extract,
                              const JobOptions& job) {
  ExtractTask task(std::move(model), extract);
  InputReader input(InputOf(OfDocuments(job)));
  InputRow row;
  while (input.Next(row)) {
    if (!row.problem) return task.ShowPrompt(row);
  }
  Throw(ErrorKind::kUsage, "--show-prompt: the input has no document");
}

}  // namespace banyan
