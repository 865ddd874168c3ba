#include "serve/worker_pool.h"

#include <utility>

namespace banyan {

WorkerPool::WorkerPool(int most) : most_(most) {}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::TryRun(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (running_ >= most_ || ended_) return false;
  ++running_;
  waiting_.push_back(std::move(work));
  if (running_ > static_cast<int>(threads_.size())) threads_.emplace_back([this] { Work(); });
  changed_.notify_one();
  return true;
}

int WorkerPool::running() const {
  const std::lock_guard lock(mutex_);
  return running_;
}

void WorkerPool::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds goes before its place is given away
    lock.lock();
    --running_;
  }
}

}  // namespace banyan
