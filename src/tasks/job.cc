#include "tasks/job.h"

#include <algorithm>
#include <functional>

#include "base/error.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

// Records in flight or held for the order: a long one never holds up more than these.
constexpr size_t kWindow = 1024;
constexpr double kIdleSeconds = 0.05;  // between looks at the stop request, with nothing to do
constexpr double kGatherSeconds = 0.002;
constexpr int kTagBits = 24;  // of a record's own tags

class Timer {
 public:
  explicit Timer(double& total) : total_(total), start_(Clock::now()) {}
  ~Timer() { total_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  double& total_;
  Clock::time_point start_;
};

InputOptions InputOf(const JobOptions& options) {
  return {ExpandInputs(options.inputs, options.output), options.input_format, options.fields};
}

Json HeaderOf(const Task& task, const Model& model, const JobOptions& options, Strategy strategy) {
  Json header;
  header["task"] = task.name();
  header["model"] = ParseJson(model.identity(), "the model's identity");
  Json& parameters = header["parameters"] = task.Parameters();
  parameters["--shard"] = fmt::format("{}/{}", options.shard, options.shards);
  parameters["--field"] = options.fields;
  // All strategies give the same answers but the two that are there for comparison.
  const bool inexact = strategy == Strategy::kSequential || strategy == Strategy::kNoAttention;
  parameters["--strategy"] = inexact ? StrategyName(strategy) : "any exact one";
  return header;
}

// Calls `visit` for every answer of the tree.
void ForEachAnswer(PromptSegment& segment, const std::function<void(AnswerRequest&)>& visit) {
  for (AnswerRequest& answer : segment.answers) visit(answer);
  for (PromptSegment& below : segment.below) ForEachAnswer(below, visit);
}

}  // namespace

JobRunner::JobRunner(std::shared_ptr<Model> model, const EngineOptions& engine_options, Task& task,
                     const JobOptions& options)
    : model_(model),
      task_(task),
      options_(options),
      strategy_(engine_options.strategy),
      engine_(model, engine_options),
      output_(options, HeaderOf(task, *model, options, engine_options.strategy)),
      input_(InputOf(options)),
      first_rows_(output_.rows()),
      first_errors_(output_.error_rows()),
      start_(Clock::now()),
      last_report_(start_) {}

JobReceipt JobRunner::Run() {
  while (true) {
    Feed();
    if (options_.explain && !explained_ && engine_.waiting() > 0) {
      options_.explain(engine_.Explain());
      explained_ = true;
    }
    const bool worked = engine_.Step();
    Collect();
    {
      Timer timer(output_seconds_);
      output_.Tick();
    }
    if (options_.stop && reading_ && options_.stop()) StopReading(JobEnd::kStopped);
    ReportProgress(false);
    if (!worked && !reading_ && in_flight_.empty()) break;
  }
  {
    Timer timer(output_seconds_);
    output_.Finish(end_ == JobEnd::kComplete);
  }
  ReportProgress(true);
  return MakeReceipt();
}

bool JobRunner::WantsMore() const {
  return reading_ && in_flight_.size() + held_.size() < kWindow &&
         engine_.waiting() < engine_.wanted_waiting();
}

// Takes rows while the engine wants more; rows that need no engine are done at once, so now and
// then it lets the others go on.
void JobRunner::Feed() {
  Timer timer(input_seconds_);
  constexpr int kRowsAtATime = 256;
  InputRow row;
  for (int taken = 0; taken < kRowsAtATime && WantsMore(); ++taken) {
    const bool enough = options_.limit >= 0 && rows_read_ >= options_.limit;
    // While answers are being written nothing waits for the input; before the first, a little, so
    // that the engine begins with more than one.
    const bool idle = in_flight_.empty() && taken == 0;
    const double patience = idle ? kIdleSeconds : engine_.running() == 0 ? kGatherSeconds : 0.0;
    const RowQueue::State state = enough ? RowQueue::State::kEnd : input_.Take(row, patience);
    if (state == RowQueue::State::kEnd) reading_ = false;
    if (state != RowQueue::State::kRow) return;
    ++rows_read_;
    Accept(row);
  }
}

void JobRunner::Accept(InputRow& row) {
  InFlight record;
  record.input_position = row.input_position;
  // An error is about a place in a file, so its key has the place; a record's key is its content.
  const std::string place = fmt::format("{}:{}", row.file, row.line);
  std::optional<RowProblem> problem = row.problem;
  const auto is_done = [this](const Key128& key) { return output_.IsDone(key); };
  bool done = false;
  if (!problem) {
    try {
      const auto verdict = ledger_.Judge(task_.Identity(row), row.content, is_done);
      record.key = verdict.key;
      done = verdict.done;
      if (verdict.duplicate) problem = {ErrorKind::kInput, "an earlier row has the same id"};
    } catch (const std::exception& e) {
      problem = ProblemOf(e);
    }
  }
  if (row.index % options_.shards != options_.shard - 1) return;
  if (record.key == Key128{}) {
    record.key = KeyOf({"problem", place, row.content});
    done = is_done(record.key);
  }
  if (done) {
    ++skipped_;
    return;
  }
  const std::uint64_t sequence = next_sequence_++;
  if (!problem) {
    try {
      record.work = task_.Start(row);
    } catch (const std::exception& e) {
      problem = ProblemOf(e);
    }
  }
  if (problem) {
    record.rows.push_back(task_.ErrorRow(row, *problem));
    return Finish(sequence, std::move(record));
  }
  if (Advance(sequence, record)) {
    record.rows = record.work->Rows();
    return Finish(sequence, std::move(record));
  }
  in_flight_.emplace(sequence, std::move(record));
}

bool JobRunner::Advance(std::uint64_t sequence, InFlight& record) {
  std::vector<PromptSegment> prompts = record.work->NextPrompts();
  for (PromptSegment& prompt : prompts) {
    std::int64_t answers = 0;
    ForEachAnswer(prompt, [&](AnswerRequest& answer) {
      BANYAN_CHECK(answer.tag >> kTagBits == 0);
      answer.tag |= sequence << kTagBits;
      ++answers;
    });
    try {
      engine_.Submit(std::move(prompt));
      record.missing += answers;
    } catch (const Error& e) {
      record.work->Refuse(e);
    }
  }
  return record.missing == 0;
}

void JobRunner::Collect() {
  for (Answer& answer : engine_.TakeFinished()) {
    const std::uint64_t sequence = answer.tag >> kTagBits;
    answer.tag &= (std::uint64_t{1} << kTagBits) - 1;
    const auto it = in_flight_.find(sequence);
    BANYAN_CHECK(it != in_flight_.end());
    InFlight& record = it->second;
    record.work->Take(std::move(answer));
    if (--record.missing > 0) continue;
    if (!Advance(sequence, record)) continue;
    InFlight done = std::move(record);
    in_flight_.erase(it);
    done.rows = done.work->Rows();
    Finish(sequence, std::move(done));
  }
}

void JobRunner::Finish(std::uint64_t sequence, InFlight record) {
  record.work.reset();
  ++progress_.records;
  if (!options_.ordered) return WriteRows(record);
  held_.emplace(sequence, std::move(record));
  WriteInOrder();
}

void JobRunner::WriteInOrder() {
  while (!held_.empty() && held_.begin()->first == next_written_) {
    WriteRows(held_.begin()->second);
    held_.erase(held_.begin());
    ++next_written_;
  }
}

void JobRunner::WriteRows(const InFlight& record) {
  Timer timer(output_seconds_);
  output_.Write(record.key, record.rows);
  if (input_.total_bytes() > 0) {
    progress_.fraction = std::clamp(
        static_cast<double>(record.input_position) / static_cast<double>(input_.total_bytes()),
        progress_.fraction, 1.0);
  }
  if (options_.max_errors >= 0 && output_.error_rows() - first_errors_ > options_.max_errors &&
      reading_) {
    StopReading(JobEnd::kTooManyErrors);
  }
}

// What has begun is finished; records of which nothing runs yet are left for another time.
void JobRunner::StopReading(JobEnd why) {
  reading_ = false;
  end_ = why;
  std::unordered_map<std::uint64_t, std::int64_t> waiting;
  const std::vector<std::uint64_t> tags = engine_.WaitingTags();
  for (const std::uint64_t tag : tags) ++waiting[tag >> kTagBits];
  const auto not_begun = [&](std::uint64_t tag) {
    const auto it = in_flight_.find(tag >> kTagBits);
    return it != in_flight_.end() && waiting[tag >> kTagBits] == it->second.missing;
  };
  engine_.CancelWaiting(not_begun);
  for (const auto& [sequence, count] : waiting) {
    if (not_begun(sequence << kTagBits)) in_flight_.erase(sequence);
  }
}

}  // namespace banyan
