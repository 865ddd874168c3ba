// The lines of one batch through the engine, several at a time, and its output files.
#include "serve/batches/batch_run.h"

#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/work_budget.h"
#include "serve/openai/completion.h"
#include "serve/openai/embeddings.h"
#include "serve/request/api_error.h"
#include "serve/request/parameters.h"
#include "tasks/job/job_rows.h"
#include "tasks/output/output.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr int kBehindOthers = -1;  // priority
constexpr int kLinesAtOnce = 32;
constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr auto kBusyWait = std::chrono::milliseconds(100);   // until a full queue is tried again
constexpr auto kDiskWait = std::chrono::milliseconds(2000);  // until a full disk is tried again

// The batch was stopped while a line was answered: it is answered again later.
struct LineStopped {};

// Of a line of the input; empty: it has none, or is no JSON.
std::string CustomIdOf(const std::string& line) {
  try {
    const Json json = ParseJsonRow(line, kBodyLimits);
    const bool there =
        json.is_object() && json.contains("custom_id") && json["custom_id"].is_string();
    return there ? json["custom_id"].get<std::string>() : std::string();
  } catch (const Error&) {
    return {};
  }
}

OrderedJson BatchRow(const std::string& custom_id, int status, OrderedJson body) {
  OrderedJson row;
  row["id"] = NewId("batch_req_");
  row["custom_id"] = custom_id;
  row["response"] = {
      {"status_code", status}, {"request_id", NewId("req_")}, {"body", std::move(body)}};
  row["error"] = nullptr;
  return row;
}

OrderedJson BatchErrorRow(const std::string& custom_id, const ApiError& error) {
  return BatchRow(custom_id, error.status(), OrderedJson::parse(error.ToJson()));
}

Json HeaderOf(const Model& model, const OrderedJson& batch) {
  return {
      {"task", "batch"},
      {"model", ParseJson(model.identity(), "the model's identity")},
      {"parameters", {{"endpoint", batch.at("endpoint")}, {"input", batch.at("input_file_id")}}}};
}

// A batch's output divided into two files: answers and errors.
class SplitOutput {
 public:
  explicit SplitOutput(const fs::path& beside)
      : paths{beside.string() + ".answers", beside.string() + ".errors"} {
    for (int i = 0; i < 2; ++i) files_[i].open(paths[i], std::ios::binary | std::ios::trunc);
  }
  ~SplitOutput() {
    std::error_code none;
    for (const fs::path& path : paths) fs::remove(path, none);
  }
  void Add(const std::string& line, bool good) {
    files_[good ? 0 : 1] << line << '\n';
    any[good ? 0 : 1] = true;
  }
  // Throws kIo.
  void Finish() {
    for (std::ofstream& file : files_) {
      file.close();
      if (!file) Throw(ErrorKind::kIo, "{}: cannot write", paths[0].string());
    }
  }

  const fs::path paths[2];
  bool any[2] = {false, false};

 private:
  std::ofstream files_[2];
};

}  // namespace

// The lines of the batch on several threads, from the input to the output. Each is written once,
// whatever happens.
class BatchRun::Lines {
 public:
  explicit Lines(BatchRun& run)
      : run_(run),
        tenant_(run.batch_.value("tenant", "")),
        options_(OptionsOf(run.batches_.OutputOf(run.id_))),
        output_(options_, {}, HeaderOf(*run.context_.model, run.batch_)),
        input_(run.files_.PathOf(tenant_, run.batch_.at("input_file_id").get<std::string>()),
               std::ios::binary),
        total_(output_.done_before()) {
    CheckInput();
    run_.broken_ = false;
  }
  ~Lines() {
    Join();
    run_.files_.Count(tenant_, -counted_, /*anyway=*/true);
  }

  // Answers the lines that are not done. False: stopped or cancelled before the end. Throws what
  // reading or writing threw.
  bool Answer() {
    for (int i = 0; i < kLinesAtOnce; ++i) threads_.emplace_back([this] { Work(); });
    while (running_ > 0) {
      std::this_thread::sleep_for(kLookEvery);
      Look();
    }
    Join();
    if (failure_) std::rethrow_exception(failure_);
    output_.Finish(!cut_short_, {});  // nothing merges batches
    ShowCounts();
    return !cut_short_;
  }

 private:
  static JobOptions OptionsOf(const fs::path& output) {
    JobOptions options;
    options.output = output.string();
    options.resume = true;
    return options;
  }

  // A file that cannot be read is not one without lines.
  void CheckInput() {
    const bool ended = input_.eof() && !input_.bad();
    if (!input_ && !ended) Throw(ErrorKind::kIo, "{}: the input cannot be read", run_.id_);
  }

  // The first failure ends all: what is on the disk counts, the rest is done again.
  void Break() {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    run_.broken_ = true;
    run_.batches_.calls().Cancel();
  }

  void Look() {
    try {
      const std::lock_guard lock(mutex_);
      if (failure_) return;
      output_.Tick();
      ShowCounts();
    } catch (...) {
      Break();
    }
  }

  // REQUIRES: mutex_, or no thread runs.
  void ShowCounts() {
    std::error_code none;
    const std::uintmax_t bytes = fs::file_size(run_.batches_.OutputOf(run_.id_), none);
    const std::int64_t now = none ? counted_ : CostOfFile(bytes);
    run_.files_.Count(tenant_, now - std::exchange(counted_, now), /*anyway=*/true);
    run_.batches_.Note(run_.id_, "request_counts",
                       {{"total", total_},
                        {"completed", output_.rows() - output_.error_rows()},
                        {"failed", output_.error_rows()}});
  }

  bool NextLine(std::string& line, RecordLedger::Verdict& verdict) {
    const std::lock_guard lock(mutex_);
    while (std::getline(input_, line)) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      verdict = ledger_.Judge(CustomIdOf(line), line,
                              [&](const Key128& key) { return output_.IsDone(key); });
      if (verdict.done) continue;
      ++total_;
      return true;
    }
    CheckInput();
    return false;
  }

  void AnswerUntilStopped() {
    std::string line;
    RecordLedger::Verdict verdict;
    while (!run_.broken_ && !run_.batches_.ShouldStop(run_.id_) && NextLine(line, verdict)) {
      OutputRow row;
      try {
        row.fields = verdict.duplicate
                         ? BatchErrorRow(CustomIdOf(line),
                                         ApiError(400, "an earlier line has the same custom_id"))
                         : run_.AnswerLine(line);
      } catch (const LineStopped&) {
        break;
      }
      row.error = row.fields["response"]["status_code"] != 200;
      row.identity = DumpJson(OrderedJson{row.fields["custom_id"]});
      const std::lock_guard lock(mutex_);
      if (!failure_) output_.Write(verdict.key, std::span(&row, 1));
    }
    if (!run_.batches_.ShouldStop(run_.id_)) return;
    const std::lock_guard lock(mutex_);
    cut_short_ = true;
  }

  void Work() {
    try {
      AnswerUntilStopped();
    } catch (...) {
      Break();
    }
    --running_;
  }

  void Join() {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

  BatchRun& run_;
  const std::string tenant_;
  const JobOptions options_;
  std::mutex mutex_;  // guards what follows but for running_ and threads_
  JobOutput output_;
  std::ifstream input_;
  RecordLedger ledger_;
  std::int64_t total_;
  std::int64_t counted_ = 0;  // bytes of the output that count against the tenant's limit
  bool cut_short_ = false;
  std::exception_ptr failure_;
  std::atomic<int> running_ = kLinesAtOnce;
  std::vector<std::thread> threads_;
};

BatchRun::BatchRun(ServeContext& context, FileStore& files, Batches& batches, std::string id)
    : context_(context), files_(files), batches_(batches), id_(std::move(id)) {}

// A full disk is no fault of the batch: it goes on as soon as there is room.
void BatchRun::Run() {
  for (;;) {
    try {
      return RunOnce();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kIo) throw;
    }
    batches_.Note(id_, "errors",
                  BatchErrors("waiting",
                              "the server cannot write to its disk now; the batch goes "
                              "on when it can"));
    if (!batches_.Sleep(kDiskWait)) return;
  }
}

void BatchRun::RunOnce() {
  batch_ = batches_.Update(id_, [](OrderedJson& batch, bool cancelled) {
    if (!cancelled) batch["status"] = "in_progress";
    if (batch["in_progress_at"].is_null()) batch["in_progress_at"] = SecondsNow();
    batch["errors"] = nullptr;
  });
  const bool complete = Lines(*this).Answer();
  if (!complete && !batches_.IsCancelled(id_)) return;  // the next server goes on
  batches_.Update(id_, [](OrderedJson& batch, bool) { batch["finalizing_at"] = SecondsNow(); });
  Conclude();
}

// Hands answers and errors over to the file store, in files of their own.
void BatchRun::Conclude() {
  const fs::path path = batches_.OutputOf(id_);
  SplitOutput split(path);
  std::ifstream output(path, std::ios::binary);
  if (!output) Throw(ErrorKind::kIo, "{}: the output cannot be read", id_);
  for (std::string line; std::getline(output, line);) {
    const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    split.Add(line, row.is_object() && row["response"]["status_code"] == 200);
  }
  if (output.bad()) Throw(ErrorKind::kIo, "{}: the output cannot be read", id_);
  split.Finish();
  const std::string tenant = batch_.value("tenant", "");
  constexpr const char* kFields[] = {"output_file_id", "error_file_id"};
  constexpr const char* kNames[] = {"_output.jsonl", "_error.jsonl"};
  std::string adopted[2];  // ids
  try {
    for (int i = 0; i < 2; ++i) {
      if (!split.any[i]) continue;
      adopted[i] = files_.Adopt({tenant, id_ + kNames[i], "batch_output"}, split.paths[i]);
    }
    batches_.Update(id_, [&](OrderedJson& batch, bool cancelled) {
      for (int i = 0; i < 2; ++i) {
        if (!adopted[i].empty()) batch[kFields[i]] = adopted[i];
      }
      batch["status"] = cancelled ? "cancelled" : "completed";
      batch[cancelled ? "cancelled_at" : "completed_at"] = SecondsNow();
    });
  } catch (const std::exception&) {  // it is concluded again: no client has seen these files
    for (const std::string& file : adopted) {
      if (!file.empty()) files_.Delete(tenant, file);
    }
    throw;
  }
  // The rows are now in files that clients can fetch and delete.
  std::error_code ignored;
  fs::remove(path, ignored);
  fs::remove(path.string() + ".journal", ignored);
}

// Asks until the engine takes it.
std::string BatchRun::AnswerBody(const std::string& body) {
  const std::string endpoint = batch_.at("endpoint").get<std::string>();
  const auto scope = batch_.value("scope", std::uint64_t{0});
  WorkBudget budget;
  budget.unwanted = [&] { return broken_ || batches_.ShouldStop(id_); };
  const BudgetScope budget_scope(budget);
  for (;;) {
    if (budget.unwanted()) throw LineStopped();
    try {
      if (endpoint == "/v1/embeddings") return Embeddings(context_, body);
      const auto read = endpoint == "/v1/completions" ? ReadTextCompletion : ReadChatCompletion;
      CompletionRequest request = read(context_, body, scope);
      if (request.stream) throw ApiError(400, "'stream': a batch has no streams", "stream");
      EngineCall call(context_, scope, kBehindOthers, nullptr);
      const RunningCalls::Entry entry(batches_.calls(), call);
      return Completion(context_, std::move(request)).Whole(call);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const WorkStopped&) {  // seen above, or there is no room now
    } catch (const std::exception& error) {
      // The queue is full, or a call was cancelled: by this batch, another one or the server.
      const int status = AsApiError(error).status();
      if (status != 429 && status != 503) throw;
    }
    batches_.Sleep(kBusyWait);
  }
}

OrderedJson BatchRun::AnswerLine(const std::string& line) {
  const std::string custom_id = CustomIdOf(line);
  try {
    const Json json = ParseJsonRow(line, kBodyLimits);
    if (!json.is_object() || custom_id.empty() || !json.contains("body") ||
        json.value("method", "POST") != "POST" ||
        json.value("url", Json()) != batch_.at("endpoint").get<std::string>()) {
      throw ApiError(
          400, R"(expected {"custom_id","method":"POST","url":the batch's endpoint,"body":{…}})");
    }
    // As it is written: an answer has the order of the schema's properties.
    constexpr const char* kBody[] = {"body"};
    const std::string body(JsonValueText(line, kBody));
    return BatchRow(custom_id, 200, OrderedJson::parse(AnswerBody(body)));
  } catch (const std::exception& error) {
    return BatchErrorRow(custom_id, AsApiError(error));
  }
}

}  // namespace banyan
