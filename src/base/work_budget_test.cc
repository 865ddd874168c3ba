// Budgets of threads: what is counted, for whom, and when work is stopped.
#include "base/work_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <type_traits>

#include "base/error.h"
#include "support/counted_memory.h"

namespace banyan {
namespace {

// Whoever turns an Error into a row's problem or a refusal lets it pass.
static_assert(!std::is_base_of_v<Error, WorkStopped>);

using testing_support::CountedMemory;

// As in a program that tells of its blocks.
class WorkBudgetTest : public ::testing::Test {
 protected:
  void SetUp() override { MemoryTally::told = true; }
  void TearDown() override { MemoryTally::told = false; }

  static WorkStopped::Why WhyStopped(size_t bytes) {
    try {
      ChargeBudget(bytes);
    } catch (const WorkStopped& stopped) {
      return stopped.why();
    }
    ADD_FAILURE() << "not stopped";
    return WorkStopped::Why::kTime;
  }
};

constexpr size_t kBlock = 100'000;

TEST_F(WorkBudgetTest, BlocksOfTheThreadAreCounted) {
  CountedMemory memory;
  WorkBudget budget;
  budget.memory = &memory;
  MemoryTally::Allocated(kBlock);  // for nobody
  {
    const BudgetScope scope(budget);
    MemoryTally::Allocated(kBlock);
    EXPECT_EQ(memory.taken, 100'000);
    MemoryTally::Allocated(100);  // small ones are reported together
    EXPECT_EQ(memory.taken, 100'000);
    std::thread([] { MemoryTally::Allocated(kBlock); }).join();
    MemoryTally::Freed(kBlock);
    EXPECT_EQ(memory.taken, 100);
    ChargeBudget(kBlock);  // announces what will be told
    EXPECT_EQ(memory.taken, 100);
    AdoptMemory(kBlock);
    EXPECT_EQ(memory.taken, 100'100);
    DisownMemory(kBlock);
    MemoryTally::Allocated(50);
  }
  EXPECT_EQ(memory.taken, 150);
  MemoryTally::Allocated(kBlock);
  EXPECT_EQ(memory.taken, 150);
}

TEST_F(WorkBudgetTest, AnInnerScopeCountsForItsOwn) {
  CountedMemory outer, inner;
  WorkBudget first, second;
  first.memory = &outer;
  second.memory = &inner;
  const BudgetScope scope(first);
  MemoryTally::Allocated(1000);
  {
    const BudgetScope within(second);
    MemoryTally::Allocated(kBlock);
  }
  MemoryTally::Allocated(kBlock);
  EXPECT_EQ(inner.taken, 100'000);
  EXPECT_EQ(outer.taken, 101'000);
}

TEST_F(WorkBudgetTest, WorkWithoutRoomIsStopped) {
  CountedMemory memory;
  memory.most = 1000;
  WorkBudget budget;
  budget.memory = &memory;
  const BudgetScope scope(budget);
  MemoryTally::Allocated(600);
  EXPECT_NO_THROW(CheckBudget());
  EXPECT_NO_THROW(ChargeBudget(400));
  EXPECT_EQ(WhyStopped(401), WorkStopped::Why::kRoom);
  memory.refusal = MemoryAccount::Room::kNever;
  EXPECT_EQ(WhyStopped(401), WorkStopped::Why::kNever);
  MemoryTally::Allocated(401);
  EXPECT_THROW(CheckBudget(), WorkStopped);
  MemoryTally::Freed(401);
  EXPECT_NO_THROW(CheckBudget());
}

TEST_F(WorkBudgetTest, WhereNothingIsToldAnnouncementsCount) {
  MemoryTally::told = false;
  CountedMemory memory;
  WorkBudget budget;
  budget.memory = &memory;
  const BudgetScope scope(budget);
  MemoryTally::Allocated(kBlock);
  EXPECT_EQ(memory.taken, 0);
  ChargeBudget(70);
  EXPECT_EQ(memory.taken, 70);
}

}  // namespace
}  // namespace banyan
