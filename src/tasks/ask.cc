// `banyan ask` as a library call: the task in the runner, or an estimate of what it would do.
#include "banyan/ask.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "tasks/ask_task.h"
#include "tasks/job.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kCalibrationSeconds = 3.0;
constexpr std::int64_t kCalibrationAnswers = 256;

// Walks trees of prompts and counts what a job would do with them.
class PromptCounter {
 public:
  explicit PromptCounter(JobEstimate& estimate) : estimate_(estimate) {}

  // The instruction is prefilled once for all records that have the same.
  void Count(const PromptSegment& root) {
    const bool known = root.tokens == last_root_;
    if (!known) last_root_ = root.tokens;
    Visit(root, 0, !known);
  }

 private:
  void Visit(const PromptSegment& segment, std::int64_t above, bool is_new) {
    const std::int64_t length = above + static_cast<std::int64_t>(segment.tokens.size());
    if (is_new) estimate_.unique_tokens += static_cast<std::int64_t>(segment.tokens.size());
    for (const AnswerRequest& answer : segment.answers) {
      estimate_.prompt_tokens += length;
      estimate_.longest_prompt = std::max(estimate_.longest_prompt, length);
      estimate_.answer_tokens_limit +=
          answer.forced.empty() ? answer.max_new : static_cast<std::int64_t>(answer.forced.size());
    }
    for (const PromptSegment& below : segment.below) Visit(below, length, true);
  }

  JobEstimate& estimate_;
  std::vector<TokenId> last_root_;
};

std::int64_t CountAnswers(const PromptSegment& segment) {
  auto count = static_cast<std::int64_t>(segment.answers.size());
  for (const PromptSegment& below : segment.below) count += CountAnswers(below);
  return count;
}

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

JobReceipt RunAsk(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                  const AskOptions& ask, const JobOptions& job) {
  CheckJob(job);
  AskTask task(model, ask);
  return JobRunner(model, engine_options, task, job).Run();
}

JobEstimate EstimateAsk(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        const AskOptions& ask, const JobOptions& job) {
  CheckJob(job);
  AskTask task(model, ask);
  Engine engine(model, engine_options);
  InputReader input({ExpandInputs(job.inputs, job.output), job.input_format, job.fields});
  JobEstimate estimate;
  PromptCounter counter(estimate);
  KeySet identities;
  InputRow row;
  std::int64_t streams = 0, calibration_answers = 0;
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
          counter.Count(root);
          const std::int64_t answers = CountAnswers(root);
          streams += answers;
          if (calibration_answers >= kCalibrationAnswers) continue;
          calibration_answers += answers;
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
  estimate.weight_bytes = model->weight_bytes();
  estimate.kv_bytes = engine.receipt().kv_bytes_total;
  if (calibration_answers == 0) return estimate;
  Calibrate(engine, calibration_answers, estimate);
  const double per_row = 1.0 / estimate.rows_per_second;
  const auto prefill = static_cast<double>(estimate.unique_tokens);
  estimate.expected_seconds =
      per_row * (prefill + static_cast<double>(streams) * estimate.tokens_per_answer);
  estimate.limit_seconds = per_row * (prefill + static_cast<double>(estimate.answer_tokens_limit));
  return estimate;
}

}  // namespace banyan
