// `banyan ask` as a library call: the task in the runner, or an estimate of what it would do.
#include "banyan/ask.h"

#include "base/error.h"
#include "tasks/ask/ask_task.h"
#include "tasks/job/job.h"
#include "tasks/job/job_estimate.h"

namespace banyan {
namespace {

// Every question is a chat turn of its own. Several of them in a row before the first answer are no
// prompt that anybody would write, so their answers are no baseline.
void RefuseQuestionsInARow(const EngineOptions& options) {
  if (options.strategy != Strategy::kSequential) return;
  Throw(ErrorKind::kUsage,
        "--strategy sequential: a chat template for each question would stand in one prompt. "
        "'python3 -m eval.seqbatch' asks numbered questions in one prompt; 'banyan bench' times "
        "answers that follow one another");
}

}  // namespace

std::vector<std::vector<std::string>> NeededColumns(const AskOptions& ask) {
  std::vector<std::vector<std::string>> needed = {{"context"}};
  if (ask.question_list.empty() && ask.questions_name.empty()) {
    needed.push_back({"question", "questions"});
  }
  return needed;
}

JobReceipt RunAsk(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                  const AskOptions& ask, const JobOptions& job) {
  RefuseQuestionsInARow(engine_options);
  CheckJob(job);
  AskTask task(model, ask);
  if (ask.thinking && !task.thinking_matters() && job.notice) {
    job.notice("--thinking on: changes nothing, the model's chat template has no such switch");
  }
  return JobRunner(model, engine_options, task, job).Run();
}

JobEstimate EstimateAsk(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        const AskOptions& ask, const JobOptions& job) {
  RefuseQuestionsInARow(engine_options);
  CheckJob(job);
  AskTask task(model, ask);
  return EstimateJob(model, engine_options, task, job);
}

}  // namespace banyan
