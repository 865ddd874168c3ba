#include "tasks/job/job.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/timing.h"
#include "tasks/input/input_files.h"
#include "tasks/options/task_options.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

// Between looks at the stop request, with nothing to do.
constexpr double kIdleSeconds = 0.005;
// The engine begins with more than one record, if more come within so much time.
constexpr double kGatherSeconds = 0.01;

int TextWorkers() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 4, 1, 4);
}

EngineOptions ForJobs(EngineOptions options) {
  if (options.mixed_rows == 0) options.mixed_rows = -1;  // only the end counts
  return options;
}

Json HeaderOf(const Task& task, const Model& model, const JobOptions& options,
              const EngineOptions& engine) {
  const Strategy strategy = engine.strategy;
  Json header;
  header["task"] = task.name();
  header["model"] = ParseJson(model.identity(), "the model's identity");
  Json& parameters = header["parameters"] = task.Parameters();
  parameters.update(IdentityOf(options));
  parameters["--field"] = options.fields;
  for (const FileField& field : options.file_fields) {
    parameters[fmt::format("--field {}:{}", field.pattern, field.ours)] = field.theirs;
  }
  // All strategies give the same answers but the two that are there for comparison.
  const bool inexact = strategy == Strategy::kSequential || strategy == Strategy::kNoAttention;
  parameters["--strategy"] = inexact ? StrategyName(strategy) : "any exact one";
  if (engine.kv_store && engine.kv_store->bits() != 0) {  // answers are approximate
    parameters["--kv-bits"] = engine.kv_store->bits();
  }
  return header;
}

// Tables come out with the columns that they came in with, unless somebody chose.
InputOptions RowsOf(const JobOptions& options) {
  const OutputFormat format = OutputFormatOf(options);
  InputOptions input = InputOf(options);
  input.keep_given =
      options.columns.empty() && (format == OutputFormat::kCsv || format == OutputFormat::kTsv);
  return input;
}

TableColumns ColumnsOf(const Task& task, const JobOptions& options, RowQueue& input) {
  TableColumns columns = task.Columns();
  columns.input = BesideTask(input.Columns(options.stop), columns, options.fields);
  return columns;
}

}  // namespace

InputOptions InputOf(const JobOptions& options) {
  return InputOf(options, ExpandInputs(options.inputs, options.output, options.notice));
}

InputOptions InputOf(const JobOptions& options, std::vector<std::string> files) {
  InputOptions input;
  input.files = std::move(files);
  input.format = options.input_format;
  input.fields = options.fields;
  input.file_fields = options.file_fields;
  input.encoding = options.encoding;
  input.delimiter = options.delimiter;
  input.needed = options.needed_columns;
  input.document_field = options.document_field;
  input.other_document_field = options.other_document_field;
  input.names = options.input_names;
  input.problem_field = options.problem_field;
  return input;
}

JobRunner::JobRunner(std::shared_ptr<Model> model, const EngineOptions& engine_options, Task& task,
                     const JobOptions& options)
    : model_(model),
      task_(task),
      options_(options),
      strategy_(engine_options.strategy),
      kv_store_(engine_options.kv_store),
      engine_(model, ForJobs(engine_options)),
      input_(RowsOf(options)),
      output_(options, ColumnsOf(task, options, input_),
              HeaderOf(task, *model, options, engine_options)),
      stacks_(task, *model_),
      first_rows_(output_.rows()),
      first_errors_(output_.error_rows()),
      start_(Clock::now()),
      last_report_(start_) {}

// Also after an error: a worker that waits for room in the engine must not wait for ever.
JobRunner::~JobRunner() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  engine_.Shutdown(Unfinished::kCancel);
  EndWorkers();
}

JobReceipt JobRunner::Run() {
  for (int i = 0; i < TextWorkers(); ++i) workers_.emplace_back([this] { WorkOnText(); });
  while (true) {
    StartEngine();
    Route(engine_.TakeEvents(kIdleSeconds));
    Write();
    {
      Timer timer(output_seconds_);
      output_.Tick();
    }
    if (options_.stop && end_ == JobEnd::kComplete && options_.stop()) Stop(JobEnd::kStopped);
    if (end_ == JobEnd::kComplete && MetUnreadable()) Stop(JobEnd::kUnreadable);
    ReportProgress(false);
    if (Over()) break;
  }
  EndWorkers();
  if (end_ == JobEnd::kComplete && MetUnreadable()) end_ = JobEnd::kUnreadable;
  if (output_.finished() && end_ == JobEnd::kComplete) {
    output_.CheckSameInput(nullptr, output_.done_before() - skipped_);
  }
  {
    Timer timer(output_seconds_);
    const bool complete = end_ == JobEnd::kComplete;
    // With --limit the rest of the input is not known to be gone.
    if (complete && options_.limit < 0) output_.KeepOnly(taken_);
    output_.Finish(complete, input_hash_.Value());
  }
  FinishSaving();
  for (const std::string& column : output_.UnusedColumns()) {
    if (options_.notice && !output_.finished())
      options_.notice(fmt::format("--columns: no row had a field '{}'", column));
  }
  ReportProgress(true);
  return MakeReceipt();
}

// Answers do not depend on it: a store that is full or cannot be written is only said.
void JobRunner::FinishSaving() {
  if (!kv_store_) return;
  try {
    kv_store_->Finish();
  } catch (const std::exception& error) {
    if (options_.notice) options_.notice(fmt::format("--kv-save: {}", error.what()));
  }
}

// Once there is enough to begin with.
void JobRunner::StartEngine() {
  if (engine_started_) return;
  {
    const std::lock_guard lock(mutex_);
    const bool more_may_come = reading_ && engine_.waiting() < engine_.wanted_waiting();
    if (more_may_come && (engine_.waiting() == 0 || SecondsSince(start_) < kGatherSeconds)) return;
  }
  if (options_.explain && engine_.waiting() > 0) options_.explain(engine_.Explain());
  engine_.Start();
  engine_started_ = true;
}

bool JobRunner::Over() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  return !reading_ && open_records_ == held_.size();
}

bool JobRunner::MetUnreadable() const {
  const std::lock_guard lock(mutex_);
  return !stopped_at_.empty();
}

void JobRunner::EndWorkers() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void JobRunner::Write() {
  std::vector<RecordPtr> records;
  {
    const std::lock_guard lock(mutex_);
    records.swap(concluded_);
  }
  std::int64_t written = 0, answered = 0;
  for (RecordPtr& record : records) {
    if (options_.ordered) {
      held_.emplace(record->run.number(), std::move(record));
      continue;
    }
    WriteRows(*record);
    ++written;
    answered += record->answered;
  }
  // A record that was abandoned ends the order: those after it are asked again too.
  while (!held_.empty() && held_.begin()->first == next_written_ &&
         !held_.begin()->second->run.cancelled()) {
    WriteRows(*held_.begin()->second);
    answered += held_.begin()->second->answered;
    held_.erase(held_.begin());
    ++next_written_;
    ++written;
  }
  if (written == 0) return;
  const std::lock_guard lock(mutex_);
  open_records_ -= static_cast<size_t>(written);
  work_.answered_rows -= answered;
  changed_.notify_all();
}

void JobRunner::WriteRows(const Record& record) {
  if (record.run.cancelled() || end_ == JobEnd::kTooManyErrors) return;
  progress_.records += static_cast<std::int64_t>(record.keys.size());
  progress_.prompt_tokens += record.prompts.prompt_tokens;
  written_tokens_ += record.generated;
  progress_.saved_tokens += record.prompts.prompt_tokens - record.prompts.unique_tokens;
  for (const OutputRow& row : record.rows) {
    if (first_error_.empty()) first_error_ = row.error_message();
  }
  Timer timer(output_seconds_);
  if (record.keys.size() == 1) {
    output_.Write(record.keys.front().key, record.rows);
  } else {
    BANYAN_CHECK(record.rows.size() == record.keys.size());
    for (size_t i = 0; i < record.rows.size(); ++i) {
      if (!record.keys[i].done) {
        output_.Write(record.keys[i].key, std::span(record.rows).subspan(i, 1));
      }
    }
  }
  if (options_.max_errors >= 0 && output_.error_rows() - first_errors_ > options_.max_errors &&
      end_ == JobEnd::kComplete) {
    Stop(JobEnd::kTooManyErrors);
  }
}

// What is under way is cancelled: it is asked again when the job is resumed.
void JobRunner::Stop(JobEnd why) {
  end_ = why;
  {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    stopping_ = true;
  }
  engine_.Shutdown(Unfinished::kCancel);
  engine_started_ = true;  // and over
}

}  // namespace banyan
