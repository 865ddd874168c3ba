// One batch after another: how each begins, waits for the disk and ends.
#include <chrono>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/json_row.h"
#include "serve/api_error.h"
#include "serve/batches.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;
namespace fs = std::filesystem;

// Between tries to write to a disk that refused.
constexpr auto kDiskPatience = std::chrono::seconds(2);

OrderedJson ErrorsOf(const char* code, const std::string& message) {
  return {{"object", "list"}, {"data", {{{"code", code}, {"message", message}}}}};
}

// Lines of a batch's output in two files of their own.
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

// Answers and errors in files of their own.
void Batches::Conclude(const std::string& id) {
  SplitOutput split(OutputOf(id));
  std::ifstream output(OutputOf(id), std::ios::binary);
  if (!output) Throw(ErrorKind::kIo, "{}: the output cannot be read", id);
  for (std::string line; std::getline(output, line);) {
    const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    split.Add(line, row.is_object() && row["response"]["status_code"] == 200);
  }
  if (output.bad()) Throw(ErrorKind::kIo, "{}: the output cannot be read", id);
  split.Finish();
  OrderedJson batch;
  {
    const std::lock_guard lock(mutex_);
    batch = batches_.at(id);
  }
  const std::string tenant = batch.value("tenant", "");
  constexpr const char* kFields[] = {"output_file_id", "error_file_id"};
  constexpr const char* kNames[] = {"_output.jsonl", "_error.jsonl"};
  try {
    for (int i = 0; i < 2; ++i) {
      if (!split.any[i]) continue;
      batch[kFields[i]] = files_.Adopt({tenant, id + kNames[i], "batch_output"}, split.paths[i]);
    }
    const std::lock_guard lock(mutex_);
    const bool cancelled = cancelled_.contains(id);
    batch["status"] = cancelled ? "cancelled" : "completed";
    batch[cancelled ? "cancelled_at" : "completed_at"] = SecondsNow();
    Save(batch);
  } catch (const std::exception&) {  // it is concluded again: nobody knows of these
    for (const char* field : kFields) {
      if (batch[field].is_string()) files_.Delete(tenant, batch[field].get<std::string>());
    }
    throw;
  }
  // Its rows are in files that clients can fetch and delete.
  std::error_code ignored;
  fs::remove(OutputOf(id), ignored);
  fs::remove(OutputOf(id).string() + ".journal", ignored);
}

void Batches::RunOnce(const std::string& id) {
  OrderedJson batch;
  {
    const std::lock_guard lock(mutex_);
    batch = batches_.at(id);
    if (!cancelled_.contains(id)) batch["status"] = "in_progress";
    if (batch["in_progress_at"].is_null()) batch["in_progress_at"] = SecondsNow();
    batch["errors"] = nullptr;
    Save(batch);
  }
  const bool complete = AnswerLines(id, batch);
  {
    const std::lock_guard lock(mutex_);
    if (!complete && !cancelled_.contains(id)) return;  // the server stops: another goes on
    batch = batches_.at(id);
    batch["finalizing_at"] = SecondsNow();
    Save(batch);
  }
  Conclude(id);
}

// A disk that is full is no fault of the batch: it goes on as soon as there is room.
void Batches::Run(const std::string& id) {
  for (;;) {
    try {
      return RunOnce(id);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kIo) throw;
    }
    std::unique_lock lock(mutex_);
    batches_[id]["errors"] = ErrorsOf(
        "waiting", "the server cannot write to its disk now; the batch goes on when it can");
    changed_.wait_for(lock, kDiskPatience, [this] { return stopping_; });
    if (stopping_) return;
  }
}

void Batches::Fail(const std::string& id, const std::string& message) {
  const std::lock_guard lock(mutex_);
  OrderedJson batch = batches_.at(id);
  batch["status"] = "failed";
  batch["failed_at"] = SecondsNow();
  batch["errors"] = ErrorsOf("failed", message);
  try {
    Save(batch);
  } catch (const std::exception&) {  // the disk refuses that too: seen again at the next start
    batches_[id] = batch;
  }
}

void Batches::Work() {
  for (;;) {
    std::string id;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      id = waiting_.front();
      waiting_.pop_front();
    }
    try {
      Run(id);
    } catch (const ApiError& error) {
      Fail(id, error.what());
    } catch (const std::exception&) {  // messages of files have paths of this machine
      Fail(id, "the batch's output on the server is not what it was");
    }
  }
}

}  // namespace banyan
