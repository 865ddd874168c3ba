// Runs one batch. A batch is a job: its rows go into an output with a journal
// (tasks/output/output.h), so no line is lost or repeated when the server dies. While the disk is
// full, the batch waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/json.h"
#include "serve/batches/batches.h"
#include "serve/batches/file_store.h"
#include "serve/batches/run_resources.h"
#include "serve/request/context.h"

namespace banyan {

class BatchRun {
 public:
  BatchRun(ServeContext& context, FileStore& files, Batches& batches, const std::string& tenant,
           std::string id);

  // Until the batch is over or the server stops. Throws ApiError or Error when it cannot be run.
  void Run();
  // Ends the lines under way; they are asked again unless the batch is to end. From any thread.
  void CancelCalls() { calls_.Cancel(); }

  const std::string& id() const { return id_; }

 private:
  using OrderedJson = nlohmann::ordered_json;
  class Lines;
  enum class Outcome { kComplete, kStopped, kNoRoom };

  void RunOnce();  // throws kIo when the disk refuses; what was written by then counts
  void Conclude(Outcome outcome);
  // Waits for room and for the engine. Throws LineStopped. `write` gets the row while the memory
  // that it takes is counted.
  void AnswerLine(const std::string& line, const std::function<void(OrderedJson row)>& write);
  // Nothing: to be asked again later; `no_room`: for want of memory.
  std::optional<OrderedJson> AnswerOnce(const std::string& line, LineMemory& memory, bool& no_room);
  OrderedJson AnswerNow(const std::string& line, const std::string& custom_id);
  std::string AnswerBody(const std::string& body);

  ServeContext& context_;
  FileStore& files_;
  Batches& batches_;
  const std::string id_;
  OutputRoom room_;
  RunningCalls calls_;
  std::atomic<size_t> lines_bytes_{0};
  std::mutex large_line_;            // held by the line that found no room, until it is answered
  OrderedJson batch_;                // as it was when the run began
  std::atomic<bool> broken_{false};  // the disk refused, or has no room: lines are given up
};

}  // namespace banyan
