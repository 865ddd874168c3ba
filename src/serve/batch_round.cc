// A batch's lines, several at a time; each is written once, whatever happens.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_row.h"
#include "serve/api_error.h"
#include "serve/batch_rows.h"
#include "serve/batches.h"
#include "tasks/job/record_ledger.h"
#include "tasks/output/output.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kLinesAtOnce = 32;
constexpr auto kPatience = std::chrono::milliseconds(100);

Json HeaderOf(const Model& model, const OrderedJson& batch) {
  return {
      {"task", "batch"},
      {"model", ParseJson(model.identity(), "the model's identity")},
      {"parameters", {{"endpoint", batch.at("endpoint")}, {"input", batch.at("input_file_id")}}}};
}

}  // namespace

// The lines of one batch on several threads, from the input to the output.
class Batches::Round {
 public:
  Round(Batches& batches, const std::string& id, const OrderedJson& batch)
      : batches_(batches),
        id_(id),
        batch_(batch),
        tenant_(batch.value("tenant", "")),
        options_(OptionsOf(batches.OutputOf(id))),
        output_(options_, {}, HeaderOf(*batches.context_.model, batch)),
        input_(batches.files_.PathOf(tenant_, batch.at("input_file_id").get<std::string>()),
               std::ios::binary),
        total_(output_.done_before()) {
    CheckInput();
    batches_.broken_ = false;
  }
  ~Round() {
    Join();
    batches_.files_.Count(tenant_, -counted_, /*anyway=*/true);
  }

  // False: cut short. Throws what reading or writing threw.
  bool Run() {
    for (int i = 0; i < kLinesAtOnce; ++i) threads_.emplace_back([this] { WorkAndTell(); });
    while (running_ > 0) {
      std::this_thread::sleep_for(kPatience);
      Look();
    }
    Join();
    if (failure_) std::rethrow_exception(failure_);
    output_.Finish(!cut_short_, {});  // nothing merges batches
    ShowCounts();
    return !cut_short_;
  }

 private:
  static JobOptions OptionsOf(const std::filesystem::path& output) {
    JobOptions options;
    options.output = output.string();
    options.resume = true;
    return options;
  }

  // A file that cannot be read is not one without lines.
  void CheckInput() {
    const bool ended = input_.eof() && !input_.bad();
    if (!input_ && !ended) Throw(ErrorKind::kIo, "{}: the input cannot be read", id_);
  }

  // The first failure ends all: what is on the disk counts, the rest is done again.
  void Break() {
    const std::lock_guard lock(lines_);
    if (!failure_) failure_ = std::current_exception();
    batches_.broken_ = true;
    const std::lock_guard known(batches_.mutex_);
    batches_.CancelCalls();
  }

  void Look() {
    try {
      const std::lock_guard lock(lines_);
      if (failure_) return;
      output_.Tick();
      ShowCounts();
    } catch (...) {
      Break();
    }
  }

  // REQUIRES: lines_, or no thread runs.
  void ShowCounts() {
    std::error_code none;
    const std::uintmax_t bytes = std::filesystem::file_size(batches_.OutputOf(id_), none);
    const std::int64_t now = none ? counted_ : CostOfFile(bytes);
    batches_.files_.Count(tenant_, now - std::exchange(counted_, now), /*anyway=*/true);
    const std::lock_guard known(batches_.mutex_);
    batches_.batches_[id_]["request_counts"] = {
        {"total", total_},
        {"completed", output_.rows() - output_.error_rows()},
        {"failed", output_.error_rows()}};
  }

  bool NextLine(std::string& line, RecordLedger::Verdict& verdict) {
    const std::lock_guard lock(lines_);
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

  void Work() {
    std::string line;
    RecordLedger::Verdict verdict;
    while (!batches_.broken_ && !batches_.Stopping(id_) && NextLine(line, verdict)) {
      OutputRow row;
      try {
        row.fields = verdict.duplicate
                         ? BatchErrorRow(CustomIdOf(line),
                                         ApiError(400, "an earlier line has the same custom_id"))
                         : batches_.AnswerLine(line, batch_);
      } catch (const LineStopped&) {
        break;
      }
      row.error = row.fields["response"]["status_code"] != 200;
      row.identity = DumpJson(OrderedJson{row.fields["custom_id"]});
      const std::lock_guard lock(lines_);
      if (!failure_) output_.Write(verdict.key, std::span(&row, 1));
    }
    if (!batches_.Stopping(id_)) return;
    const std::lock_guard lock(lines_);
    cut_short_ = true;
  }

  void WorkAndTell() {
    try {
      Work();
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

  Batches& batches_;
  const std::string id_;
  const OrderedJson& batch_;
  const std::string tenant_;
  const JobOptions options_;
  std::mutex lines_;  // guards what follows but for running_ and threads_
  JobOutput output_;
  std::ifstream input_;
  RecordLedger ledger_;
  std::int64_t total_;
  std::int64_t counted_ = 0;  // bytes of the output that the tenant's room was told of
  bool cut_short_ = false;
  std::exception_ptr failure_;
  std::atomic<int> running_ = kLinesAtOnce;
  std::vector<std::thread> threads_;
};

bool Batches::AnswerLines(const std::string& id, const OrderedJson& batch) {
  return Round(*this, id, batch).Run();
}

}  // namespace banyan
