// What a job would do, from its prompts and a few seconds of answering.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "banyan/job.h"
#include "base/error.h"
#include "base/timing.h"
#include "tasks/input/input.h"
#include "tasks/job/job.h"
#include "tasks/job/job_rows.h"

namespace banyan {

namespace {

// Relative to what one device was measured to take; of groups that compute together, none was.
std::vector<DevicesPrediction> PredictionsOf(const Engine& engine, const JobEstimate& estimate,
                                             const WorkAhead& work) {
  std::vector<DevicesPrediction> predictions = engine.PredictDevices(work);
  if (predictions.empty() || predictions.front().seconds_by_document <= 0.0 ||
      estimate.devices.front().name.find('+') != std::string::npos)
    return {};
  const double measured = estimate.expected_seconds * static_cast<double>(estimate.devices.size());
  const double scale = measured / predictions.front().seconds_by_document;
  for (DevicesPrediction& prediction : predictions) {
    prediction.seconds_by_document *= scale;
    prediction.seconds_in_shards *= scale;
  }
  return predictions;
}

constexpr double kCalibrationSeconds = 3.0;
constexpr std::int64_t kCalibrationAnswers = 256;

// Answers the first records for a few seconds.
void Calibrate(Engine& engine, std::int64_t answers, JobEstimate& estimate) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return SecondsSince(start); };
  std::int64_t finished = 0, generated = 0;
  while (seconds() < kCalibrationSeconds && engine.Step()) {
    for (const Answer& answer : engine.TakeFinished()) {
      if (answer.finish == FinishReason::kError) Throw(ErrorKind::kLimit, "{}", answer.error);
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

// Memory for keys and values if every answer had full length: as much a token as the first records
// took, with what is lost at the ends of pages, and never more than there is.
std::int64_t KvBytes(const Receipt& receipt, const JobEstimate& estimate) {
  const std::int64_t stored = receipt.prefilled_tokens + receipt.decode_rows;
  if (stored <= 0) return receipt.kv_bytes_total;
  const double per_token = static_cast<double>(receipt.kv_bytes_peak) / static_cast<double>(stored);
  const auto tokens = static_cast<double>(estimate.unique_tokens + estimate.answer_tokens_limit);
  const auto needed = static_cast<std::int64_t>(per_token * tokens);
  return std::min(std::max(needed, receipt.kv_bytes_peak), receipt.kv_bytes_total);
}

// The prompts of a job, counted; the first of them are submitted.
class Estimator {
 public:
  Estimator(const Model& model, Task& task, Engine& engine, JobEstimate& estimate)
      : model_(model), task_(task), engine_(engine), estimate_(estimate) {}

  void Add(const std::vector<TakenRow>& record) {
    estimate_.records += static_cast<std::int64_t>(record.size());
    try {
      if (!record.front().row.problem) return Ask(record);
    } catch (const std::exception&) {
    }
    estimate_.rows += static_cast<std::int64_t>(record.size());
    estimate_.error_rows += static_cast<std::int64_t>(record.size());
  }

  const PromptCount& count() const { return count_; }
  std::int64_t submitted() const { return submitted_; }  // answers

 private:
  void Ask(const std::vector<TakenRow>& record) {
    std::vector<InputRow> rows;
    for (const TakenRow& taken : record) rows.push_back(taken.row);
    const std::unique_ptr<RecordWork> work =
        rows.size() == 1 ? task_.Start(rows.front()) : task_.StartStack(rows);
    const std::string adapter = AdapterOfRow(rows.front(), model_);
    for (PromptSegment& root : work->NextPrompts()) {
      root.adapter = adapter;
      const PromptCount of_root = counter_.Count(root);
      count_ += of_root;
      if (submitted_ >= kCalibrationAnswers) continue;
      submitted_ += of_root.answers;
      engine_.Submit(std::move(root));
    }
    for (const RowProblem& problem : work->Problems()) {
      ++estimate_.error_rows;
      estimate_.too_long += problem.kind == ErrorKind::kLimit ? 1 : 0;
    }
    estimate_.rows += work->row_count();
  }

  const Model& model_;
  Task& task_;
  Engine& engine_;
  JobEstimate& estimate_;
  PromptCounter counter_;
  PromptCount count_;
  std::int64_t submitted_ = 0;
};

}  // namespace

JobEstimate EstimateJob(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        Task& task, const JobOptions& job) {
  InputReader input(InputOf(job));
  return EstimateJob(std::move(model), engine_options, task, job, input);
}

JobEstimate EstimateJob(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        Task& task, const JobOptions& job, RowSource& input) {
  Engine engine(model, engine_options);
  JobEstimate estimate;
  Estimator estimator(*model, task, engine, estimate);
  RowStacks stacks(task, *model);
  JobRows rows(input, task, job);
  InputRow row;
  while (rows.Next(row)) {
    stacks.Add({std::move(row), {}, 0});
    while (stacks.HasRecord()) estimator.Add(stacks.TakeRecord());
  }
  stacks.End();
  while (stacks.HasRecord()) estimator.Add(stacks.TakeRecord());
  const PromptCount& count = estimator.count();
  estimate.prompt_tokens = count.prompt_tokens;
  estimate.unique_tokens = count.unique_tokens;
  estimate.longest_prompt = count.longest_prompt;
  estimate.answer_tokens_limit = count.answer_tokens_limit;
  estimate.weight_bytes = model->weight_bytes();
  estimate.kv_bytes = engine.receipt().kv_bytes_total;
  estimate.devices = engine.receipt().devices;
  if (estimator.submitted() == 0) return estimate;
  Calibrate(engine, estimator.submitted(), estimate);
  estimate.kv_bytes = KvBytes(engine.receipt(), estimate);
  const double per_row = 1.0 / estimate.rows_per_second;
  const auto prefill = static_cast<double>(estimate.unique_tokens);
  estimate.expected_seconds =
      per_row * (prefill + static_cast<double>(count.answers) * estimate.tokens_per_answer);
  estimate.limit_seconds = per_row * (prefill + static_cast<double>(estimate.answer_tokens_limit));
  const auto answers = static_cast<double>(count.answers);
  estimate.predictions = PredictionsOf(
      engine, estimate,
      {static_cast<double>(estimate.records), answers, static_cast<double>(estimate.prompt_tokens),
       prefill, answers * estimate.tokens_per_answer});
  return estimate;
}

}  // namespace banyan
