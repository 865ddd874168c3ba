#include "base/thread_pool.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/machine_limits.h"

namespace banyan {
namespace {

// About 20 µs: longer than the gap between two operations of a step, short against a step.
constexpr int kSpins = 4000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  const int count = threads > 0 ? threads : UsableProcessors();
  for (int worker = 1; worker < count; ++worker) {
    threads_.emplace_back([this, worker] { WorkerLoop(worker); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::RunBody(int worker) {
  try {
    (*body_)(worker);
  } catch (...) {
    std::lock_guard<std::mutex> lock(mutex_);
    failure_ = std::current_exception();
  }
}

void ThreadPool::Run(const std::function<void(int)>& body) {
  body_ = &body;
  running_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  if (!threads_.empty()) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
  }
  RunBody(0);
  for (int spin = 0; running_.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < kSpins) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::ForEach(std::int64_t count, const std::function<void(std::int64_t, int)>& body) {
  if (count <= 0) return;
  if (threads_.empty() || count == 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i, 0);
    return;
  }
  std::atomic<std::int64_t> next{0};
  Run([&](int worker) {
    for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) body(i, worker);
  });
}

void ThreadPool::WorkerLoop(int worker) {
  std::uint64_t seen = 0;
  while (true) {
    std::uint64_t now = generation_.load(std::memory_order_acquire);
    for (int spin = 0; now == seen && spin < kSpins && !stopping_; ++spin) {
      Pause();
      now = generation_.load(std::memory_order_acquire);
    }
    if (now == seen) {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || generation_.load() != seen; });
      if (generation_.load() == seen) return;  // stopping
      now = generation_.load();
    }
    seen = now;
    RunBody(worker);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace banyan
