// One device of an engine: the core that works there, and what stands between it and the other
// threads. Two locks, always taken in this order: the core's is held for a whole step, the queue's
// only for moments.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "banyan/engine.h"
#include "engine/core.h"
#include "engine/request_queue.h"

namespace banyan {

class DeviceLane {
 public:
  // `device`: its index in the model and in the queue, which must outlive it. `answers`: the queue
  // of requests without one of their own.
  DeviceLane(std::shared_ptr<Model> model, size_t device, const EngineOptions& options,
             RequestQueue& queue, std::shared_ptr<AnswerQueue> answers);

  // A turn of work: nothing to do, more of it, or what memory was missing for.
  enum class Left { kNothing, kWork, kUndone };
  Left Work() noexcept;
  bool HasWork() const { return queue_.HasWork(device_); }
  // A thread that works until the queue's end.
  void Start();
  bool started() const { return thread_.joinable(); }
  void Join() { thread_.join(); }

  // Heeds cancellations now, unless a step is running, after which they are heeded.
  void TakeCancellations();
  // For the end: throws nothing.
  void CancelAll();

  // Of this device, and its latencies into `latencies`.
  Receipt MakeReceipt(Latencies& latencies);
  // Adds what is waiting to `ahead`.
  std::string Explain(WorkAhead& ahead);
  std::vector<ForestNode> Picture(std::span<const RequestId> requests);

  int max_streams() const { return core_.max_streams(); }
  int batch_rows() const { return core_.batch_rows(); }
  int most_branches() const { return most_branches_; }  // of a stream

 private:
  std::unique_lock<std::mutex> LockCore();
  Left WorkOnce() noexcept;
  void Run();
  void EnterThread();
  void TakeInbox();
  RequestQueue::Room FindRoom();
  void StartAnewAfterFailure();
  void Deliver();

  Model::Parts& copy_;  // of the model
  const size_t device_;
  RequestQueue& queue_;
  const std::shared_ptr<AnswerQueue> answers_;

  std::mutex core_mutex_;  // guards what follows, but for most_branches_ and callers_
  EngineCore core_;
  std::exception_ptr failure_;  // of the core, which must start anew before anything else
  // Requests that left the queue; from next_arriving_ on they are not in the core yet.
  std::vector<std::shared_ptr<RequestTree>> arriving_;
  size_t next_arriving_ = 0;
  std::vector<RequestQueue::Cancellation> cancelled_;
  // Events that left the core; from next_delivery_ on they are not in their queues yet.
  std::vector<AnswerEvents::Delivery> deliveries_;
  size_t next_delivery_ = 0;
  std::int64_t requests_ = 0;  // taken so far
  const int most_branches_;
  std::atomic<int> callers_{0};  // that wait for core_mutex_

  std::thread thread_;
};

}  // namespace banyan
