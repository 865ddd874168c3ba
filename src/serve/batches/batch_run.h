// Runs one batch. A batch is a job: its rows go into an output with a journal
// (tasks/output/output.h), so no line is lost or repeated when the server dies. While the disk is
// full, the batch waits.
#pragma once

#include <atomic>
#include <string>

#include "base/json.h"
#include "serve/batches/batches.h"
#include "serve/batches/file_store.h"
#include "serve/request/context.h"

namespace banyan {

class BatchRun {
 public:
  BatchRun(ServeContext& context, FileStore& files, Batches& batches, std::string id);

  // Until the batch is over or the server stops. Throws ApiError or Error when it cannot be run.
  void Run();

 private:
  using OrderedJson = nlohmann::ordered_json;
  class Lines;

  void RunOnce();  // throws kIo when the disk refuses; what was written by then counts
  void Conclude();
  OrderedJson AnswerLine(const std::string& line);
  std::string AnswerBody(const std::string& body);

  ServeContext& context_;
  FileStore& files_;
  Batches& batches_;
  const std::string id_;
  OrderedJson batch_;                // as it was when the run began
  std::atomic<bool> broken_{false};  // the disk refused: lines under way are given up
};

}  // namespace banyan
