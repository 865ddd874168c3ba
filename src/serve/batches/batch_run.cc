// The lines of one batch through the engine, several at a time, and its output files.
#include "serve/batches/batch_run.h"

#include <fmt/format.h>
#include <algorithm>
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
// What results take on the disk: the rows once more when they are divided, and the journal.
constexpr std::int64_t kCopies = 2, kJournalEntry = 64, kFilesRoom = 32 << 10;
constexpr const char* kNoRoomMessage =
    "your files and batches take all the room that you have; the answers that fit are in the "
    "output file";
constexpr size_t kTimesAnswer = 6;           // an answer's text, its values and its row
constexpr std::int64_t kMostLines = 50'000;  // OpenAI's; each is known by its hash in memory
constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr auto kBusyWait = std::chrono::milliseconds(100);   // until a full queue is tried again
constexpr auto kDiskWait = std::chrono::milliseconds(2000);  // until a full disk is tried again

std::int64_t SizeOf(const fs::path& path) {
  std::error_code none;
  const std::uintmax_t bytes = fs::file_size(path, none);
  return none ? 0 : static_cast<std::int64_t>(bytes);
}

// The batch was stopped while a line was answered: it is answered again later.
struct LineStopped {};

// Of a line of the input; empty: it has none, or is no JSON.
std::string CustomIdOf(const std::string& line) {
  constexpr const char* kName[] = {"custom_id"};
  if (FirstJsonError(line)) return {};
  const Json value = Json::parse(JsonValueText(line, kName), nullptr, /*allow_exceptions=*/false);
  return value.is_string() ? value.get<std::string>() : std::string();
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
    CheckLines();
    run_.broken_ = false;
    const fs::path output = run_.batches_.OutputOf(run_.id_);
    run_.room_.Set(kFilesRoom + kCopies * SizeOf(output) + SizeOf(output.string() + ".journal"));
  }
  ~Lines() { Join(); }

  // Answers the lines that are not done. Throws what reading or writing threw.
  Outcome Answer() {
    for (int i = 0; i < kLinesAtOnce; ++i) threads_.emplace_back([this] { Work(); });
    while (running_ > 0) {
      std::this_thread::sleep_for(kLookEvery);
      Look();
    }
    Join();
    if (failure_) std::rethrow_exception(failure_);
    output_.Finish(!cut_short_, {});  // nothing merges batches
    ShowCounts();
    if (no_room_) return Outcome::kNoRoom;
    return cut_short_ ? Outcome::kStopped : Outcome::kComplete;
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

  // Before the first line is answered.
  void CheckLines() {
    std::int64_t lines = 0;
    std::vector<char> piece(1 << 16);
    while (input_.read(piece.data(), static_cast<std::streamsize>(piece.size())) ||
           input_.gcount() > 0) {
      lines += std::count(piece.data(), piece.data() + input_.gcount(), '\n');
    }
    CheckInput();
    if (lines > kMostLines) {
      throw ApiError(
          400, fmt::format("the input has {} lines; a batch has at most {}", lines, kMostLines));
    }
    input_.clear();
    input_.seekg(0);
  }

  // The first failure ends all: what is on the disk counts, the rest is done again.
  void Break() {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    run_.broken_ = true;
    run_.calls_.Cancel();
  }

  // Results never go beyond the tenant's limit: those that are there are kept, the rest is left.
  void Write(const Key128& key, OrderedJson fields) {
    OutputRow row;
    row.fields = std::move(fields);
    row.error = row.fields["response"]["status_code"] != 200;
    row.identity = DumpJson(OrderedJson{row.fields["custom_id"]});
    const std::lock_guard lock(mutex_);
    if (failure_ || no_room_) return;
    const auto bytes = static_cast<std::int64_t>(DumpJson(row.fields).size()) + 1;
    if (run_.room_.Take(kCopies * bytes + kJournalEntry)) {
      return output_.Write(key, std::span(&row, 1));
    }
    no_room_ = cut_short_ = true;
    run_.broken_ = true;
    run_.calls_.Cancel();
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
      const auto write = [&](OrderedJson fields) { Write(verdict.key, std::move(fields)); };
      if (verdict.duplicate) {
        const ApiError refused(400, "an earlier line has the same custom_id");
        write(BatchErrorRow(CustomIdOf(line), refused));
        continue;
      }
      try {
        run_.AnswerLine(line, write);
      } catch (const LineStopped&) {
        break;
      }
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
  bool cut_short_ = false, no_room_ = false;
  std::exception_ptr failure_;
  std::atomic<int> running_ = kLinesAtOnce;
  std::vector<std::thread> threads_;
};

BatchRun::BatchRun(ServeContext& context, FileStore& files, Batches& batches,
                   const std::string& tenant, std::string id)
    : context_(context),
      files_(files),
      batches_(batches),
      id_(std::move(id)),
      room_(files, tenant) {}

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
  const Outcome outcome = Lines(*this).Answer();
  if (outcome == Outcome::kStopped && !batches_.IsCancelled(id_))
    return;  // the next server goes on
  batches_.Update(id_, [](OrderedJson& batch, bool) { batch["finalizing_at"] = SecondsNow(); });
  Conclude(outcome);
}

// Hands answers and errors over to the file store, in files of their own.
void BatchRun::Conclude(Outcome outcome) {
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
      room_.Set(
          std::max<std::int64_t>(0, room_.taken() - SizeOf(split.paths[i])));  // its file's now
      adopted[i] = files_.Adopt({tenant, id_ + kNames[i], "batch_output"}, split.paths[i]);
    }
    batches_.Update(id_, [&](OrderedJson& batch, bool cancelled) {
      for (int i = 0; i < 2; ++i) {
        if (!adopted[i].empty()) batch[kFields[i]] = adopted[i];
      }
      const bool failed = outcome == Outcome::kNoRoom && !cancelled;
      batch["status"] = cancelled ? "cancelled" : failed ? "failed" : "completed";
      batch[cancelled ? "cancelled_at" : failed ? "failed_at" : "completed_at"] = SecondsNow();
      if (failed) batch["errors"] = BatchErrors("storage_full", kNoRoomMessage);
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

std::string BatchRun::AnswerBody(const std::string& body) {
  const std::string endpoint = batch_.at("endpoint").get<std::string>();
  const auto scope = batch_.value("scope", std::uint64_t{0});
  if (endpoint == "/v1/embeddings") return Embeddings(context_, body);
  const auto read = endpoint == "/v1/completions" ? ReadTextCompletion : ReadChatCompletion;
  CompletionRequest request = read(context_, body, scope);
  if (request.stream) throw ApiError(400, "'stream': a batch has no streams", "stream");
  EngineCall call(context_, scope, kBehindOthers, nullptr);
  const RunningCalls::Entry entry(calls_, call);
  return Completion(context_, std::move(request)).Whole(call);
}

OrderedJson BatchRun::AnswerNow(const std::string& line, const std::string& custom_id) {
  ChargeBudget(2 * line.size());  // its own text, and that of the body
  const Json json = ParseJsonRow(line, kBodyLimits);
  if (!json.is_object() || custom_id.empty() || !json.contains("body") ||
      json.value("method", "POST") != "POST" ||
      json.value("url", Json()) != batch_.at("endpoint").get<std::string>()) {
    throw ApiError(
        400, R"(expected {"custom_id","method":"POST","url":the batch's endpoint,"body":{…}})");
  }
  // As it is written: an answer has the order of the schema's properties.
  constexpr const char* kBody[] = {"body"};
  const std::string answer = AnswerBody(std::string(JsonValueText(line, kBody)));
  ChargeBudget(kTimesAnswer * answer.size());
  return BatchRow(custom_id, 200, OrderedJson::parse(answer));
}

std::optional<OrderedJson> BatchRun::AnswerOnce(const std::string& line, LineMemory& memory,
                                                bool& no_room) {
  const std::string custom_id = CustomIdOf(line);
  WorkBudget budget;
  budget.unwanted = [&] { return broken_ || batches_.ShouldStop(id_); };
  budget.take_room = [&](size_t bytes) { return memory.Take(bytes); };
  const BudgetScope scope(budget);
  try {
    return AnswerNow(line, custom_id);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const WorkStopped& stopped) {
    no_room = stopped.why() == WorkStopped::Why::kRoom;
    return std::nullopt;
  } catch (const std::exception& error) {
    // The queue is full, or a call was cancelled: by the batch or the server.
    const ApiError refused = AsApiError(error);
    if (refused.status() == 429 || refused.status() == 503) return std::nullopt;
    return BatchErrorRow(custom_id, refused);
  }
}

// Asks until there is room and the engine takes it. Lines that find no room wait for each other, so
// that not all of them try and fail again.
void BatchRun::AnswerLine(const std::string& line,
                          const std::function<void(OrderedJson row)>& write) {
  std::unique_lock<std::mutex> large(large_line_, std::defer_lock);
  for (;;) {
    if (broken_ || batches_.ShouldStop(id_)) throw LineStopped();
    bool no_room = false;
    {
      LineMemory memory(context_.room, lines_bytes_);
      std::optional<OrderedJson> row = AnswerOnce(line, memory, no_room);
      if (row) return write(std::move(*row));
    }
    if (no_room && !large.owns_lock()) large.lock();
    batches_.Sleep(kBusyWait);
  }
}

}  // namespace banyan
