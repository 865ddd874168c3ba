// `banyan ask` as library calls: the task in the runner, an estimate of what it would do, and the
// prompts that the model would read.
#include "banyan/ask.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "tasks/ask/ask_task.h"
#include "tasks/job/job.h"

namespace banyan {
namespace {

// Every question is a chat turn of its own. Several turns before the first answer are no prompt
// that a person would write, so their answers are no baseline.
void RefuseQuestionsInARow(const EngineOptions& options) {
  if (options.strategy != Strategy::kSequential) return;
  Throw(ErrorKind::kUsage,
        "--strategy sequential: a chat template for each question would stand in one prompt. "
        "'python3 -m eval.seqbatch' asks numbered questions in one prompt; 'banyan bench' times "
        "answers that follow one another");
}

// The prompts of a tree, each once, in order.
void Gather(const PromptSegment& segment, std::vector<TokenId>& path,
            std::vector<std::vector<TokenId>>& prompts) {
  path.insert(path.end(), segment.tokens.begin(), segment.tokens.end());
  if (!segment.answers.empty()) prompts.push_back(path);
  for (const PromptSegment& below : segment.below) Gather(below, path, prompts);
  path.resize(path.size() - segment.tokens.size());
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

std::string ShowPrompts(std::shared_ptr<Model> model, const AskOptions& ask,
                        const JobOptions& job) {
  CheckJob(job);
  const std::shared_ptr<const Text> text = model->text();
  AskTask task(model, ask);
  InputReader input(InputOf(job));
  std::string shown;
  InputRow row;
  for (std::int64_t read = 0; read < (job.limit < 0 ? 1 : job.limit); ++read) {
    if (!input.Next(row)) break;
    const std::string place =
        row.line > 0 ? fmt::format("{}, line {}", row.file, row.line) : row.file;
    try {
      if (row.problem) throw Error(row.problem->kind, row.problem->message);
      const std::unique_ptr<RecordWork> work = task.Start(row);
      std::vector<TokenId> path;
      std::vector<std::vector<TokenId>> prompts;
      for (const PromptSegment& root : work->NextPrompts()) Gather(root, path, prompts);
      for (const std::vector<TokenId>& prompt : prompts) {
        shown += fmt::format("--- {}: {} tokens\n{}\n", place, prompt.size(),
                             text->Decode(prompt, /*skip_special=*/false));
      }
      for (const RowProblem& problem : work->Problems()) {
        shown += fmt::format("--- {}: error: {}\n", place, problem.message);
      }
    } catch (const std::exception& e) {
      shown += fmt::format("--- {}: error: {}\n", place, e.what());
    }
  }
  return shown;
}

}  // namespace banyan
