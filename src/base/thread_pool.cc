// The workers of the pool: taking chunks, spinning, sleeping and waking.
#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/machine_limits.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

// How long a worker without work keeps its processor, and how long it then stays awake but lets
// others have it. The first is longer than the gap between two operations, the second than the
// planning between two steps.
constexpr std::chrono::microseconds kSpinning{50};
constexpr std::chrono::microseconds kYielding{2000};
constexpr int kPausesPerLook = 16;  // at the clock

// Enough that a late thread finds less to do, few enough that taking them costs little.
constexpr std::int64_t kMostChunksPerThread = 4;
constexpr std::int64_t kMostChunks = std::int64_t{1} << 30;  // so that half a ticket counts them

// About 50 ns, without load on the memory that is waited for.
void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

constexpr int kHalf = 32;  // bits of a ticket
constexpr std::int64_t NextOf(std::uint64_t ticket) {
  return static_cast<std::int64_t>(ticket & 0xffffffffu);
}
constexpr bool HasChunk(std::uint64_t ticket) {
  return NextOf(ticket) < static_cast<std::int64_t>(ticket >> kHalf);
}

// Spins for a moment, then lets others run, until `ready` or, if that is set, the end of patience.
template <typename Ready>
bool Await(const Ready& ready, bool patient) {
  const Clock::time_point start = Clock::now();
  for (bool spinning = true;;) {
    for (int i = 0; i < (spinning ? kPausesPerLook : 1); ++i) {
      if (ready()) return true;
      Pause();
    }
    if (!spinning) std::this_thread::yield();
    const auto waited = Clock::now() - start;
    spinning = waited < kSpinning;
    if (!patient && waited > kSpinning + kYielding) return false;
  }
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  const int processors = UsableProcessors();
  size_ = threads > 0 ? threads : processors;
  concurrency_ = std::min(size_, processors);
  for (int worker = 1; worker < size_; ++worker) {
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

// Indices that go together are taken to be alike: each thread gets equally many chunks. Single ones
// may differ as they like, and are taken one by one.
std::int64_t ThreadPool::Chunks(std::int64_t count, std::int64_t grain) const {
  if (size() == 1 || count <= grain) return std::min<std::int64_t>(count, 1);
  if (grain == 1) return std::min(count, kMostChunks);
  const std::int64_t chunks = std::min(count / grain, kMostChunksPerThread * size());
  return chunks > size() ? chunks / size() * size() : chunks;
}

void ThreadPool::Run(const Piece& piece) {
  piece_ = piece;
  done_.store(0, std::memory_order_relaxed);
  // The caller has taken chunk 0.
  ticket_.store((static_cast<std::uint64_t>(piece.chunks) << kHalf) | 1, std::memory_order_seq_cst);
  WakeFor(piece.chunks);
  RunChunk(0, 0);
  const std::int64_t others = piece.chunks - 1 - RunChunks(0);
  Await([&] { return done_.load(std::memory_order_acquire) == others; }, true);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

// A worker that this does not count as asleep yet will find the piece (AwaitWork).
void ThreadPool::WakeFor(std::int64_t chunks) {
  const int wanted = static_cast<int>(std::min<std::int64_t>(chunks, concurrency_));
  const auto missing = [&] {
    return wanted - (size() - sleepers_.load(std::memory_order_seq_cst));
  };
  if (missing() <= 0) return;
  int called = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    called = std::max(missing(), 0);
    sleepers_ -= called;
    wakes_ += called;
  }
  for (int i = 0; i < called; ++i) wake_.notify_one();
}

void ThreadPool::RunChunk(std::int64_t chunk, int worker) {
  const Piece& piece = piece_;
  try {
    piece.run(piece.body, chunk * piece.count / piece.chunks,
              (chunk + 1) * piece.count / piece.chunks, worker);
  } catch (...) {
    std::lock_guard<std::mutex> lock(mutex_);
    failure_ = std::current_exception();
  }
}

// Takes chunks while there are any and returns how many.
std::int64_t ThreadPool::RunChunks(int worker) {
  std::int64_t taken = 0;
  // The look before the addition saves one that would take the ticket from others' caches.
  while (HasChunk(ticket_.load(std::memory_order_relaxed))) {
    const std::uint64_t ticket = ticket_.fetch_add(1, std::memory_order_acq_rel);
    if (!HasChunk(ticket)) break;
    RunChunk(NextOf(ticket), worker);
    ++taken;
  }
  if (worker != 0 && taken > 0) done_.fetch_add(taken, std::memory_order_release);
  return taken;
}

void ThreadPool::WorkerLoop(int worker) {
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (RunChunks(worker) == 0) AwaitWork();
  }
}

void ThreadPool::AwaitWork() {
  const auto called = [this] {
    return HasChunk(ticket_.load(std::memory_order_relaxed)) ||
           stopping_.load(std::memory_order_relaxed);
  };
  // Those that have no processor to themselves would keep others from theirs.
  const bool too_many = size() - sleepers_.load(std::memory_order_relaxed) > concurrency_;
  if (!too_many && Await(called, false)) return;
  std::unique_lock<std::mutex> lock(mutex_);
  ++sleepers_;
  wake_.wait(lock,
             [&] { return stopping_ || wakes_ > 0 || (!too_many && HasChunk(ticket_.load())); });
  if (wakes_ > 0) {
    --wakes_;
  } else {
    --sleepers_;
  }
}

}  // namespace banyan
