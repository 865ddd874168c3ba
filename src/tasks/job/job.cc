#include "tasks/job/job.h"

#include <sys/resource.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/timing.h"
#include "program/message_text.h"
#include "tasks/input/id_column.h"
#include "tasks/input/input_files.h"
#include "tasks/options/task_options.h"

namespace banyan {
namespace {

// Between looks at the stop request, with nothing to do.
constexpr double kIdleSeconds = 0.005;
// The engine begins with more than one record, if more come within so much time.
constexpr double kGatherSeconds = 0.01;

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

const std::vector<std::string> kNeedsId = {"id"};

TableColumns ColumnsOf(const Task& task, const JobOptions& options, RowQueue& input) {
  TableColumns columns = task.Columns();
  const TableHeader header = input.Header(options.stop);
  columns.delimiter = header.delimiter;
  if (!options.columns.empty()) return columns;
  columns.input = BesideTask(header.columns, task.name(), columns, options.fields);
  return columns;
}

}  // namespace

// Tables keep the columns of the input, unless --columns chooses others.
InputOptions RowsOf(const JobOptions& options) {
  const OutputFormat format = OutputFormatOf(options);
  InputOptions input = InputOf(options);
  input.wants_header = format == OutputFormat::kCsv || format == OutputFormat::kTsv;
  input.keep_given = input.wants_header && options.columns.empty();
  return input;
}

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
  input.limit = options.limit;
  return input;
}

JobOptions WithIdColumn(JobOptions job) {
  std::string& id = job.fields["id"];
  const bool said = !job.id_column.empty();
  if (said && !id.empty() && id != job.id_column) {
    Throw(ErrorKind::kUsage, "--id {} and --field id={}: give one of them", job.id_column, id);
  }
  if (said && job.id_column != kIdIsLine) {
    id = job.id_column;
    if (std::ranges::find(job.needed_columns, kNeedsId) == job.needed_columns.end()) {
      job.needed_columns.push_back(kNeedsId);
    }
  }
  if (!id.empty()) return job;
  job.fields.erase("id");
  if (said) return job;
  JobOptions silent = job;
  silent.notice = nullptr;
  const std::optional<std::string> guess = GuessIdColumn(InputOf(silent));
  if (!guess) return job;
  job.fields["id"] = *guess;
  if (job.notice) {
    job.notice(
        fmt::format("{}: the column '{}' is taken for the rows' id, as its values are all "
                    "different (--id NAME names another one; --id {}: the line)",
                    job.inputs.front(), *guess, kIdIsLine));
  }
  return job;
}

JobRunner::JobRunner(std::shared_ptr<Model> model, const EngineOptions& engine_options, Task& task,
                     const JobOptions& options)
    : JobRunner(std::move(model), engine_options, task, options, Reordered()) {}

JobRunner::JobRunner(std::shared_ptr<Model> model, const EngineOptions& engine_options, Task& task,
                     const JobOptions& options, Reordered rows)
    : model_(model),
      task_(task),
      options_(options),
      strategy_(engine_options.strategy),
      kv_store_(engine_options.kv_store),
      engine_(model, ForJobs(engine_options)),
      reordered_(rows.source != nullptr),
      keep_others_(rows.keep_others || options.limit >= 0),
      input_(reordered_ ? RowQueue(std::move(rows.source)) : RowQueue(RowsOf(options))),
      output_(options, ColumnsOf(task, options, input_),
              HeaderOf(task, *model, options, engine_options)),
      intake_(task, *model_, options, output_, input_, reordered_),
      workers_(*model_, engine_, task, intake_),
      meter_(options),
      next_row_(options.shard - 1),
      first_rows_(output_.rows()),
      first_errors_(output_.error_rows()) {}

std::string SplitNotice(const std::string& id, size_t parts, const std::string& task) {
  std::string text = fmt::format(
      "{}: longer than the model reads at once, so it is read in {} parts, which takes about as "
      "long as {} texts; so are other long ones (--too-long fail: an error instead)",
      id, parts, parts);
  if (task == "ask") {
    text +=
        ". Faster, by the passages that matter: banyan rag index FILE, then banyan rag "
        "\"QUESTION\"";
  }
  return text;
}

// Also after an error: a worker that waits for room in the engine must not wait for ever.
JobRunner::~JobRunner() {
  workers_.Stop();
  engine_.Shutdown(Unfinished::kCancel);
  workers_.End();
}

JobReceipt JobRunner::Run() {
  workers_.Start();
  do {
    StartEngine();
    Route(engine_.TakeEvents(kIdleSeconds));
    Write();
    {
      Timer timer(output_seconds_);
      output_.Tick();
    }
    if (options_.stop && end_ == JobEnd::kComplete && options_.stop()) Stop(JobEnd::kStopped);
    if (end_ == JobEnd::kComplete && workers_.met_unreadable()) Stop(JobEnd::kUnreadable);
    SaySplit();
    ReportProgress(false);
  } while (!workers_.Over(held_.size()));
  workers_.End();
  if (end_ == JobEnd::kComplete && workers_.met_unreadable()) end_ = JobEnd::kUnreadable;
  FinishOutput();
  FinishSaving();
  if (device_failure_) {
    Throw(ErrorKind::kIo,
          "the device {} failed: {}. {} of this run {} written; --resume goes on with the others",
          device_failure_->device, device_failure_->why, Plural(meter_.records(), "record"),
          meter_.records() == 1 ? "is" : "are");
  }
  for (const std::string& column : output_.UnusedColumns()) {
    if (options_.notice && !output_.finished())
      options_.notice(fmt::format("--columns: no row had a field '{}'", column));
  }
  for (const std::string& notice : intake_.MistypedNotices()) {
    if (options_.notice && !output_.finished()) options_.notice(notice);
  }
  ReportProgress(true);
  return MakeReceipt();
}

// What a device that failed has lost is no answer: its records are asked again by another run.
void JobRunner::Route(std::vector<AnswerEvent> events) {
  if (const std::optional<DeviceFailure> failure = engine_.failure()) {
    if (!std::exchange(device_failure_, failure)) Stop(JobEnd::kStopped);
    for (AnswerEvent& event : events) {
      if (!event.ended || event.answer.finish != FinishReason::kError) continue;
      event.answer.finish = FinishReason::kCancelled;
    }
  }
  workers_.Route(std::move(events));
}

// REQUIRES: the workers have ended.
void JobRunner::FinishOutput() {
  const bool complete = end_ == JobEnd::kComplete;
  if (output_.finished() && complete) {
    output_.CheckSameInput(nullptr, output_.done_before() - workers_.work().skipped_records);
  }
  Timer timer(output_seconds_);
  // With --limit the rest of the input is not known to be gone.
  WriteInOrder(/*all=*/true);
  if (complete && (options_.limit < 0 || reordered_)) {
    output_.KeepOnly(intake_.Taken(), {.others = keep_others_, .reordered = reordered_});
  }
  output_.Finish(complete, intake_.input_hash());
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
  const bool more_may_come =
      workers_.work().reading && engine_.waiting() < engine_.wanted_waiting();
  const bool gathers = SecondsSince(meter_.start()) < kGatherSeconds;
  if (more_may_come && (engine_.waiting() == 0 || gathers)) return;
  if (options_.explain && engine_.waiting() > 0) options_.explain(engine_.Explain());
  engine_.Start();
  engine_started_ = true;
}

void JobRunner::SaySplit() {
  const std::optional<SplitText> split = workers_.TakeSplit();
  if (!split || !options_.notice) return;
  options_.notice(
      SplitNotice(split->id.is_string() ? split->id.get<std::string>() : DumpJson(split->id),
                  split->parts, task_.name()));
}

void JobRunner::Write() {
  size_t written = 0;
  std::int64_t answered = 0;
  for (std::unique_ptr<JobRecord>& record : workers_.TakeConcluded()) {
    if (options_.ordered && !reordered_) {
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
  workers_.CountWritten(written, answered);
}

// Rows that come from a source in the input's order, as far as all before them are there.
void JobRunner::WriteInOrder(bool all) {
  while (!held_rows_.empty() && (all || held_rows_.begin()->first == next_row_)) {
    output_.Write(held_rows_.begin()->second.key, held_rows_.begin()->second.rows);
    next_row_ = held_rows_.begin()->first + options_.shards;
    held_rows_.erase(held_rows_.begin());
  }
}

void JobRunner::WriteRows(JobRecord& record) {
  if (record.run.cancelled() || end_ == JobEnd::kTooManyErrors || !refused_.empty()) return;
  if (options_.strict) {
    for (const OutputRow& row : record.rows) {
      if (row.error && refused_.empty()) refused_ = row.error_message();
    }
    if (!refused_.empty()) return Stop(JobEnd::kUnreadable);
  }
  meter_.AddWritten(static_cast<std::int64_t>(record.keys.size()), record.prompts,
                    record.generated);
  for (const OutputRow& row : record.rows) {
    if (first_error_.empty()) first_error_ = row.error_message();
  }
  Timer timer(output_seconds_);
  const bool single = record.keys.size() == 1;
  BANYAN_CHECK(single || record.rows.size() == record.keys.size());
  for (size_t i = 0; i < record.keys.size(); ++i) {
    if (record.keys[i].done) continue;
    const std::span<OutputRow> rows =
        single ? std::span(record.rows) : std::span(record.rows).subspan(i, 1);
    if (!reordered_ || output_.can_reorder()) {
      output_.Write(record.keys[i].key, rows);
    } else {
      held_rows_[record.places[i]] = {
          record.keys[i].key, {std::move_iterator(rows.begin()), std::move_iterator(rows.end())}};
    }
  }
  WriteInOrder(/*all=*/false);
  if (options_.max_errors >= 0 && output_.error_rows() - first_errors_ > options_.max_errors &&
      end_ == JobEnd::kComplete) {
    Stop(JobEnd::kTooManyErrors);
  }
}

// Cancels the records in flight: a resumed job asks them again.
void JobRunner::Stop(JobEnd why) {
  end_ = why;
  workers_.Stop();
  engine_.Shutdown(Unfinished::kCancel);
  engine_started_ = true;  // and over
}

void JobRunner::ReportProgress(bool last) {
  if (output_.finished() || !meter_.IsDue(last)) return;
  meter_.Report({.work = workers_.work(),
                 .engine = engine_.receipt(),
                 .total_bytes = input_.total_bytes(),
                 .rows = output_.rows() - first_rows_,
                 .error_rows = output_.error_rows() - first_errors_,
                 .complete = end_ == JobEnd::kComplete,
                 .last = last});
}

JobReceipt JobRunner::MakeReceipt() {
  JobReceipt receipt;
  receipt.task = task_.name();
  receipt.end = end_;
  receipt.backend = model_->backend_name();
  receipt.precision = model_->precision();
  receipt.strategy = StrategyName(strategy_);
  receipt.fingerprint = model_->fingerprint();
  receipt.output = options_.output;
  receipt.finished_before = output_.finished();
  receipt.records = meter_.records();
  const std::int64_t skipped = workers_.work().skipped_records;
  receipt.skipped = skipped;
  receipt.not_in_input =
      end_ == JobEnd::kComplete && options_.limit < 0 ? output_.done_before() - skipped : 0;
  receipt.first_error = first_error_;
  receipt.unread_inputs = intake_.unread_inputs();
  receipt.unread = intake_.unread();
  receipt.stopped_at = intake_.stopped_at().empty() ? refused_ : intake_.stopped_at();
  receipt.rows = output_.rows();
  receipt.dropped = output_.dropped();
  receipt.error_rows = output_.error_rows();
  receipt.rows_removed = output_.removed().rows;
  receipt.rows_this_run = output_.rows() + output_.removed().rows - first_rows_;
  receipt.error_rows_this_run = output_.error_rows() + output_.removed().error_rows - first_errors_;
  receipt.engine = engine_.receipt();
  if (end_ != JobEnd::kComplete) meter_.CountWritten(receipt);
  receipt.shared_tokens =
      std::max<std::int64_t>(0, receipt.engine.prompt_tokens - receipt.engine.prefilled_tokens);
  receipt.seconds = SecondsSince(meter_.start());
  receipt.input_seconds = workers_.seconds();
  receipt.output_seconds = output_seconds_;
  receipt.weight_bytes = model_->weight_bytes();
  struct rusage usage {};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) receipt.memory_bytes_peak = usage.ru_maxrss * 1024;
  receipt.answers_hash = output_.answers_hash();
  return receipt;
}

}  // namespace banyan
