// What the run of a batch holds: engine calls, room on the disk and memory. Each is given back when
// its owner ends, however it ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "serve/batches/file_store.h"
#include "serve/request/context.h"
#include "serve/request/engine_call.h"

namespace banyan {

// Engine calls of a batch that are under way. Thread-safe.
class RunningCalls {
 public:
  // Lists the call while the entry lives.
  class Entry {
   public:
    Entry(RunningCalls& calls, EngineCall& call);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    RunningCalls& calls_;
    EngineCall& call_;
  };
  void Cancel();  // all of them

 private:
  std::mutex mutex_;
  std::set<EngineCall*> calls_;
};

// What a batch's output takes of its tenant's room on the disk, while the run lives.
class OutputRoom {
 public:
  OutputRoom(FileStore& files, std::string tenant) : files_(files), tenant_(std::move(tenant)) {}
  ~OutputRoom() { Set(0); }
  OutputRoom(const OutputRoom&) = delete;
  OutputRoom& operator=(const OutputRoom&) = delete;

  void Set(std::int64_t bytes);                // what is there, whatever the limit says
  [[nodiscard]] bool Take(std::int64_t more);  // false: the tenant has no room for it
  std::int64_t taken() const { return taken_; }

 private:
  FileStore& files_;
  const std::string tenant_;
  std::int64_t taken_ = 0;
};

// Memory that one line of a batch takes while it is answered: of the room that requests have, and
// of the half of it that a batch's lines have together. For one thread.
class LineMemory {
 public:
  // `lines`: what all lines of the batch have.
  LineMemory(const SharedRoom& room, std::atomic<size_t>& lines) : room_(room), lines_(lines) {}
  ~LineMemory();
  LineMemory(const LineMemory&) = delete;
  LineMemory& operator=(const LineMemory&) = delete;

  // False: there is no room now. Throws ApiError 413 when there never is.
  bool Take(size_t bytes);

 private:
  const SharedRoom& room_;
  std::atomic<size_t>& lines_;
  size_t taken_ = 0;
};

}  // namespace banyan
