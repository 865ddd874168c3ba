#include "base/per_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <thread>

namespace banyan {
namespace {

std::atomic<int> alive{0};
std::atomic<bool> missing{false};  // memory, for the next Counted

struct Counted {
  Counted() {
    if (missing) throw std::bad_alloc();
    ++alive;
  }
  ~Counted() { --alive; }
  int value = 0;
};

TEST(PerThread, EachThreadHasItsOwnUntilItsEnd) {
  std::thread([] {
    PerThread<Counted>::Get().value = 7;
    std::thread([] { EXPECT_EQ(PerThread<Counted>::Get().value, 0); }).join();
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(PerThread<Counted>::Get().value, 7);
  }).join();
  EXPECT_EQ(alive, 0);
}

TEST(PerThread, WhereMemoryIsMissingTheNextCallTriesAgain) {
  std::thread([] {
    missing = true;
    EXPECT_THROW(PerThread<Counted>::Get(), std::bad_alloc);
    missing = false;
    EXPECT_EQ(PerThread<Counted>::Get().value, 0);
  }).join();
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace banyan
