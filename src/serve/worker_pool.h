// Threads for requests that are served: started when they are needed, used again, never more than
// there may be requests at once.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace banyan {

class WorkerPool {
 public:
  explicit WorkerPool(int most);
  ~WorkerPool();  // waits for what runs

  // False when as many run as may.
  bool TryRun(std::function<void()> work);
  int running() const;

 private:
  void Work();

  const int most_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;  // taken at once: there is a thread for each
  int running_ = 0;                            // with those in waiting_
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace banyan
