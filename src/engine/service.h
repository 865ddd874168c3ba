// The engine as others see it: what they ask goes into an inbox that the working thread empties
// between steps, what it finds out goes into queues. Two locks, never taken in the other order:
// `core_mutex` is held for as long as a step takes, `mutex` only for moments.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "banyan/engine.h"
#include "engine/core.h"

namespace banyan {

struct Engine::State {
  State(std::shared_ptr<Model> model, const EngineOptions& options);

  std::optional<RequestId> Submit(PromptSegment& request, const SubmitOptions& submit, bool wait);
  void Cancel(RequestId request, std::optional<std::uint64_t> tag);
  bool Step();
  void Start();
  void Shutdown(Unfinished unfinished);
  bool WaitUntilIdle(double seconds);
  Receipt MakeReceipt();
  std::string Explain();
  std::vector<ForestNode> Picture(std::span<const RequestId> requests);

  struct Cancellation {
    RequestId request = 0;
    std::optional<std::uint64_t> tag;
  };
  enum class Ending { kNo, kWhenDone, kNow };

  // Lets a caller in between two steps of the thread.
  std::unique_lock<std::mutex> LockCore();
  bool HasRoom(const RequestSize& size, const AnswerQueue& queue) const;
  void RefuseAfterEnd() const;
  void TakeInbox();
  void Deliver();
  void Work();

  const std::shared_ptr<Model> model;
  const bool sequential;
  const std::int64_t max_waiting, max_waiting_tokens;
  const std::shared_ptr<AnswerQueue> own_queue = std::make_shared<AnswerQueue>();

  std::mutex core_mutex;  // guards `core`
  EngineCore core;
  const int most_branches = core.most_branches();  // of a stream
  std::atomic<int> callers{0};                     // that wait for core_mutex

  mutable std::mutex mutex;         // guards what follows
  std::condition_variable changed;  // the inbox, or what is below
  std::vector<std::shared_ptr<RequestTree>> submitted;
  std::vector<Cancellation> cancellations;
  RequestSize inbox;     // of requests that are submitted and not in the core yet
  RequestSize promised;  // of requests that have room and are being made into trees
  RequestId last_request = 0;
  std::uint64_t next_number = 1;
  // Of the core, after its last step.
  std::int64_t waiting = 0, waiting_tokens = 0;
  int running = 0;
  bool idle = true;
  bool started = false;
  Ending ending = Ending::kNo;

  std::thread thread;
};

}  // namespace banyan
