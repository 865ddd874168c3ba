// /v1/batches: files of requests, answered behind everybody else's. Keeps what is known of every
// batch, in memory and on disk, answers clients about it and runs one batch after another
// (batch_run.h). A server that was killed goes on where it stopped.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/json.h"
#include "serve/batches/file_store.h"
#include "serve/http/http.h"
#include "serve/request/context.h"

namespace banyan {

class BatchRun;

class Batches {
 public:
  Batches(ServeContext& context, FileStore& files);
  ~Batches();

  void Start();     // goes on with what an earlier server left
  void StopSoon();  // returns at once; the next server repeats the lines under way
  void Stop();      // waits for that

  // Bodies of replies. Throw ApiError.
  std::string Create(const HttpRequest& request);
  std::string Describe(const std::string& tenant, const std::string& id);
  std::string List(const HttpRequest& request);
  std::string Cancel(const std::string& tenant, const std::string& id);
  std::string Delete(const std::string& tenant, const std::string& id);

  // --- For the batch that runs.
  using OrderedJson = nlohmann::ordered_json;
  // Changes what is known of a batch; `cancelled`: its client asked it to end. Throws kIo, and then
  // nothing has changed. Returns the new state.
  OrderedJson Update(const std::string& id,
                     const std::function<void(OrderedJson& batch, bool cancelled)>& change);
  // The same in memory only.
  void Note(const std::string& id, const char* field, OrderedJson value);
  bool IsCancelled(const std::string& id) const;
  // Whether the batch should end now: cancelled, or the server stops.
  bool ShouldStop(const std::string& id) const;
  // False: the server stops.
  bool Sleep(std::chrono::milliseconds time);
  std::filesystem::path OutputOf(const std::string& id) const;

 private:
  void ReadFolder();
  void Work();  // the thread
  void RunNext(const std::string& id);
  void Fail(const std::string& id, const std::string& message);
  void RemoveOutput(const std::string& id) const;  // with its journal and whatever is beside it
  const OrderedJson& Known(const std::string& tenant,
                           const std::string& id) const;               // REQUIRES: mutex_
  void CheckRoom(const std::string& tenant, std::int64_t cost) const;  // REQUIRES: mutex_
  void Save(const OrderedJson& batch);  // REQUIRES: mutex_. Throws kIo, and nothing has changed.

  ServeContext& context_;
  FileStore& files_;
  const std::filesystem::path directory_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::string, OrderedJson> batches_;
  std::deque<std::string> waiting_;
  std::map<std::string, std::int64_t> left_;  // bytes on the disk of batches that wait
  BatchRun* running_ = nullptr;
  std::set<std::string> cancelled_;  // those that were asked to end
  bool stopping_ = false;
  std::thread thread_;
};

// {"object":"list","data":[{"code","message"}]}: the "errors" of a batch.
nlohmann::ordered_json BatchErrors(const char* code, const std::string& message);

}  // namespace banyan
