// A fixed set of threads that run one piece of work at a time. The caller is worker 0, so a pool of
// one never switches threads. Workers spin briefly between pieces, because the operations of a step
// follow one another within microseconds, and sleep when nothing comes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace banyan {

class ThreadPool {
 public:
  // threads <= 0: as many as the process may use.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls body(worker) once on every worker and returns when all have returned. Not reentrant. An
  // exception of a body is rethrown here (one of them, if several threw).
  void Run(const std::function<void(int worker)>& body);

  // Calls body(index, worker) for every index in [0, count), in any order, each once.
  void ForEach(std::int64_t count, const std::function<void(std::int64_t index, int worker)>& body);

 private:
  void WorkerLoop(int worker);
  void RunBody(int worker);

  std::vector<std::thread> threads_;
  const std::function<void(int)>* body_ = nullptr;
  std::atomic<std::uint64_t> generation_{0};  // increases with every piece of work
  std::atomic<int> running_{0};               // workers that have not finished the current piece
  std::atomic<bool> stopping_{false};
  std::exception_ptr failure_;
  std::mutex mutex_;  // guards failure_ and sleeping
  std::condition_variable wake_;
};

}  // namespace banyan
