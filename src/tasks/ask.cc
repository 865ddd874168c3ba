// `banyan ask` as a library call: the task in the runner, or an estimate of what it would do.
#include "banyan/ask.h"

#include "base/error.h"
#include "tasks/ask_task.h"
#include "tasks/job.h"
#include "tasks/job_estimate.h"

namespace banyan {
std::vector<std::vector<std::string>> NeededColumns(const AskOptions& ask) {
  std::vector<std::vector<std::string>> needed = {{"context"}};
  if (ask.question_list.empty() && ask.questions_name.empty()) {
    needed.push_back({"question", "questions"});
  }
  return needed;
}

JobReceipt RunAsk(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                  const AskOptions& ask, const JobOptions& job) {
  CheckJob(job);
  AskTask task(model, ask);
  if (ask.thinking && !task.thinking_matters() && job.notice) {
    job.notice("--thinking on: changes nothing, the model's chat template has no such switch");
  }
  return JobRunner(model, engine_options, task, job).Run();
}

JobEstimate EstimateAsk(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        const AskOptions& ask, const JobOptions& job) {
  CheckJob(job);
  AskTask task(model, ask);
  return EstimateJob(model, engine_options, task, job);
}

}  // namespace banyan
