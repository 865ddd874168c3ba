// A fixed set of threads that share one piece of work at a time. The caller is worker 0, so a pool
// of one never switches threads.
//
// A piece of work is divided into chunks, and any free thread takes the next one: the caller
// always, the others when they are awake. So a thread that sleeps, was late or has lost its
// processor delays the work only while it holds a chunk. Between pieces workers spin, because the
// operations of a step follow one another within microseconds; they sleep after a while without
// work, and only as many as a piece has chunks for are woken.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
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

  int size() const { return size_; }

  // Calls body(index, worker) for every index in [0, count), in any order, each once, and returns
  // when all have returned. About `grain` neighbours or more go together: choose it so
  // that they take a few microseconds, which is what a thread more costs. Not reentrant, and for
  // one caller at a time. An exception of a body is rethrown here (one of them, if several threw).
  template <typename Body>
  void ForEach(std::int64_t count, std::int64_t grain, const Body& body) {
    const std::int64_t chunks = Chunks(count, grain);
    if (chunks <= 1) {
      for (std::int64_t i = 0; i < count; ++i) body(i, 0);
      return;
    }
    const auto run = [](const void* erased, std::int64_t begin, std::int64_t end, int worker) {
      const Body& call = *static_cast<const Body*>(erased);
      for (std::int64_t i = begin; i < end; ++i) call(i, worker);
    };
    Run({run, &body, count, chunks});
  }
  template <typename Body>
  void ForEach(std::int64_t count, const Body& body) {
    ForEach(count, 1, body);
  }

 private:
  // Chunk i is the indices [i * count / chunks, (i + 1) * count / chunks).
  struct Piece {
    void (*run)(const void* body, std::int64_t begin, std::int64_t end, int worker) = nullptr;
    const void* body = nullptr;
    std::int64_t count = 0;
    std::int64_t chunks = 0;
  };

  std::int64_t Chunks(std::int64_t count, std::int64_t grain) const;
  void Run(const Piece& piece);
  void RunChunk(std::int64_t chunk, int worker);
  std::int64_t RunChunks(int worker);
  void WakeFor(std::int64_t chunks);
  void WorkerLoop(int worker);
  void AwaitWork();

  static constexpr size_t kCacheLine = 128;  // two of 64 bytes, which processors fetch together

  // Chunks of the piece in the upper half, the next one in the lower: one addition takes a chunk
  // and says whether there was one. The piece is read after that alone, so it cannot be replaced
  // while somebody reads it.
  alignas(kCacheLine) std::atomic<std::uint64_t> ticket_{0};
  alignas(kCacheLine) std::atomic<std::int64_t> done_{
      0};  // chunks finished by others than worker 0
  alignas(kCacheLine) Piece piece_;
  std::atomic<int> sleepers_{0};  // that have not been called
  std::atomic<bool> stopping_{false};
  int size_ = 1;         // set before the first thread begins, as the next
  int concurrency_ = 1;  // threads that can run at the same time: at most the processors

  std::mutex mutex_;  // guards what follows, and sleeping
  std::exception_ptr failure_;
  int wakes_ = 0;  // that have been called and have not got up yet
  std::condition_variable wake_;
  std::vector<std::thread> threads_;
};

}  // namespace banyan
