// /v1/batches: files of requests, answered behind everybody else's. A batch is a job: its rows go
// into an output with a journal (tasks/output/output.h), so that a server that was killed goes on
// where it stopped, without losing or repeating a line. While the disk takes nothing, a batch
// waits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/json.h"
#include "serve/context.h"
#include "serve/engine_call.h"
#include "serve/file_store.h"
#include "serve/http.h"

namespace banyan {

class Batches {
 public:
  Batches(ServeContext& context, FileStore& files);
  ~Batches();

  void Start();     // goes on with what an earlier server left
  void StopSoon();  // returns at once; what is under way is done again by the next server
  void Stop();      // waits for that

  // Bodies of replies. Throw ApiError.
  std::string Create(const HttpRequest& request);
  std::string Describe(const std::string& tenant, const std::string& id);
  std::string List(const HttpRequest& request);
  std::string Cancel(const std::string& tenant, const std::string& id);
  std::string Delete(const std::string& tenant, const std::string& id);

 private:
  using OrderedJson = nlohmann::ordered_json;
  class Round;

  // batch_run.cc: one batch after another
  void Work();
  void Run(const std::string& id);
  void RunOnce(const std::string& id);
  void Conclude(const std::string& id);
  void Fail(const std::string& id, const std::string& message);

  // batch_lines.cc: the lines of one
  // Answers those that are not done; false: stopped or cancelled before the end. Throws kIo when
  // the disk refuses; what was written by then counts.
  bool AnswerLines(const std::string& id, const OrderedJson& batch);
  OrderedJson AnswerLine(const std::string& line, const OrderedJson& batch);
  std::string AnswerBody(const OrderedJson& batch, const std::string& body);
  bool Stopping(const std::string& id) const;

  OrderedJson Known(const std::string& tenant, const std::string& id) const;  // REQUIRES: mutex_
  void Save(const OrderedJson& batch);  // REQUIRES: mutex_. Throws kIo, and nothing has changed.
  void CancelCalls();                   // REQUIRES: mutex_
  std::filesystem::path OutputOf(const std::string& id) const;

  ServeContext& context_;
  FileStore& files_;
  const std::filesystem::path directory_;
  std::atomic<bool> broken_{false};  // the disk refused: lines under way are given up
  mutable std::mutex mutex_;         // guards what follows
  std::condition_variable changed_;
  std::map<std::string, OrderedJson> batches_;
  std::deque<std::string> waiting_;
  std::set<std::string> cancelled_;  // those that were asked to end
  std::set<EngineCall*> calls_;      // under way
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace banyan
