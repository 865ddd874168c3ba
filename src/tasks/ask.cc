// `banyan ask` as a library call: the task in the runner, or an estimate of what it would do.
#include "banyan/ask.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "tasks/ask_task.h"
#include "tasks/job.h"
#include "tasks/prompt_counter.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kCalibrationSeconds = 3.0;
constexpr std::int64_t kCalibrationAnswers = 256;

// Answers the first records for a few seconds.
void Calibrate(Engine& engine, std::int64_t answers, JobEstimate& estimate) {
  const Clock::time_point start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::int64_t finished = 0, generated = 0;
  while (seconds() < kCalibrationSeconds && engine.Step()) {
    for (const Answer& answer : engine.TakeFinished()) {
      ++finished;
      generated += static_cast<std::int64_t>(answer.tokens.size());
    }
  }
  const Receipt receipt = engine.receipt();
  estimate.calibration_seconds = seconds();
  estimate.calibration_rows = answers;
  estimate.rows_per_second =
      static_cast<double>(receipt.prefilled_tokens + receipt.decode_rows) / seconds();
  // Answers that are not finished are at least as long as they are now.
  estimate.tokens_per_answer =
      finished > 0 ? static_cast<double>(generated) / static_cast<double>(finished)
                   : static_cast<double>(receipt.generated_tokens) /
                         static_cast<double>(std::max<std::int64_t>(1, receipt.streams));
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
  Engine engine(model, engine_options);
  InputReader input(InputOf(job));
  JobEstimate estimate;
  PromptCounter counter;
  PromptCount count;
  KeySet identities;
  InputRow row;
  std::int64_t calibration_answers = 0;
  for (std::int64_t read = 0; job.limit < 0 || read < job.limit; ++read) {
    if (!input.Next(row)) break;
    bool bad = row.problem.has_value();
    try {
      bad = bad || !identities.Insert(KeyOf({task.Identity(row)}));
      if (row.index % job.shards != job.shard - 1) continue;
      ++estimate.records;
      if (!bad) {
        const std::unique_ptr<RecordWork> work = task.Start(row);
        for (PromptSegment& root : work->NextPrompts()) {
          const PromptCount of_root = counter.Count(root);
          count += of_root;
          if (calibration_answers >= kCalibrationAnswers) continue;
          calibration_answers += of_root.answers;
          engine.Submit(std::move(root));
        }
        for (const RowProblem& problem : static_cast<AskWork&>(*work).Problems()) {
          ++estimate.error_rows;
          estimate.too_long += problem.kind == ErrorKind::kLimit ? 1 : 0;
        }
        estimate.rows += static_cast<AskWork&>(*work).question_count();
        continue;
      }
    } catch (const std::exception&) {
      if (row.index % job.shards != job.shard - 1) continue;
    }
    ++estimate.rows;
    ++estimate.error_rows;
  }
  estimate.prompt_tokens = count.prompt_tokens;
  estimate.unique_tokens = count.unique_tokens;
  estimate.longest_prompt = count.longest_prompt;
  estimate.answer_tokens_limit = count.answer_tokens_limit;
  estimate.weight_bytes = model->weight_bytes();
  estimate.kv_bytes = engine.receipt().kv_bytes_total;
  if (calibration_answers == 0) return estimate;
  Calibrate(engine, calibration_answers, estimate);
  const double per_row = 1.0 / estimate.rows_per_second;
  const auto prefill = static_cast<double>(estimate.unique_tokens);
  estimate.expected_seconds =
      per_row * (prefill + static_cast<double>(count.answers) * estimate.tokens_per_answer);
  estimate.limit_seconds = per_row * (prefill + static_cast<double>(estimate.answer_tokens_limit));
  return estimate;
}

}  // namespace banyan
