#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/machine_limits.h"

namespace banyan {
namespace {

TEST(ThreadPool, EveryIndexOnce) {
  for (const int threads : {1, 2, 5, 16}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int round = 0; round < 200; ++round) {
      for (const int grain : {1, 3, 64}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(round));
        pool.ForEach(round, grain, [&](std::int64_t i, int worker) {
          ASSERT_LT(worker, threads);
          ++seen[static_cast<size_t>(i)];
        });
        for (const auto& count : seen) EXPECT_EQ(count, 1);
      }
    }
  }
}

// Pieces of work follow one another without pause; what one has written the next one reads.
TEST(ThreadPool, APieceSeesAllOfTheOneBefore) {
  for (const int threads : {2, 3, 16}) {
    ThreadPool pool(threads);
    constexpr int kCells = 64, kRounds = 3000;
    std::vector<int> cells(kCells, 0), next(kCells, 0);
    for (int round = 0; round < kRounds; ++round) {
      pool.ForEach(kCells, [&](std::int64_t i, int) {
        const auto at = static_cast<size_t>(i);
        next[at] = cells[(at + 1) % kCells] + 1;
      });
      std::swap(cells, next);
    }
    EXPECT_EQ(cells, std::vector<int>(kCells, kRounds));
  }
}

TEST(ThreadPool, IndicesThatGoTogetherStayWithOneWorker) {
  ThreadPool pool(4);
  constexpr int kCount = 1000, kGrain = 50;
  std::vector<int> worker_of(kCount);
  pool.ForEach(kCount, kGrain, [&](std::int64_t i, int worker) {
    worker_of[static_cast<size_t>(i)] = worker;
    std::this_thread::sleep_for(std::chrono::microseconds(10));
  });
  int changes = 0;
  for (size_t i = 1; i < kCount; ++i) changes += worker_of[i] != worker_of[i - 1] ? 1 : 0;
  EXPECT_LT(changes, kCount / kGrain);
}

TEST(ThreadPool, WhatIsNotWorthAThreadStaysWithTheCaller) {
  ThreadPool pool(4);
  const std::thread::id caller = std::this_thread::get_id();
  for (int round = 0; round < 100; ++round) {
    pool.ForEach(64, 64, [&](std::int64_t, int worker) {
      EXPECT_EQ(worker, 0);
      EXPECT_EQ(std::this_thread::get_id(), caller);
    });
  }
}

// Workers that went to sleep are woken when there is work for them.
TEST(ThreadPool, SleepersComeBack) {
  ThreadPool pool(2);
  if (UsableProcessors() < 2) GTEST_SKIP() << "one processor";
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> arrived{0};
    // Both must be there at the same time, or this waits for ever.
    pool.ForEach(2, [&](std::int64_t, int) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 2);
  }
}

// More threads than processors: slower than one at worst by little, and never stuck.
TEST(ThreadPool, MoreThreadsThanProcessors) {
  ThreadPool pool(64);
  std::atomic<int> sum{0};
  for (int round = 0; round < 300; ++round) {
    pool.ForEach(128, [&](std::int64_t, int) { ++sum; });
    if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(sum, 300 * 128);
}

TEST(ThreadPool, RethrowsAndGoesOn) {
  for (const int threads : {1, 3, 16}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 20; ++round) {
      EXPECT_THROW(pool.ForEach(100,
                                [](std::int64_t i, int) {
                                  if (i == 57) Throw(ErrorKind::kInput, "row {}", i);
                                }),
                   Error);
      std::atomic<int> sum{0};
      pool.ForEach(10, [&](std::int64_t i, int) { sum += static_cast<int>(i); });
      EXPECT_EQ(sum, 45);
    }
  }
}

TEST(ThreadPool, ComesAndGoes) {
  for (int round = 0; round < 50; ++round) {
    ThreadPool pool(1 + round % 7);
    if (round % 2 == 0) continue;  // never used
    std::atomic<int> count{0};
    pool.ForEach(round, [&](std::int64_t, int) { ++count; });
    EXPECT_EQ(count, round);
  }
}

}  // namespace
}  // namespace banyan
