// What a piece of work may cost: a deadline, memory, and whether it was cancelled. A budget applies
// to a thread while its BudgetScope lives. Loops over untrusted bytes (JSON, HTML, schemas,
// tokenizers) call CheckBudget regularly; without a budget it does nothing.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>

#include "program/memory_tally.h"

namespace banyan {

struct WorkBudget {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::function<bool()> unwanted;   // true: cancelled; may be empty
  MemoryAccount* memory = nullptr;  // of what the thread allocates; null: none
  // Without an account: counts bytes that are announced; false: no memory is left; may be empty.
  std::function<bool(size_t)> take_room;
};

// Thrown by CheckBudget and ChargeBudget. The work is over as a whole: it is no Error, which might
// become the fault of a row, a parameter or a schema.
class WorkStopped : public std::runtime_error {
 public:
  // kRoom: others have the memory now; kNever: there is not so much.
  enum class Why { kTime, kUnwanted, kRoom, kNever };
  explicit WorkStopped(Why why);
  Why why() const { return why_; }

 private:
  Why why_;
};

class BudgetScope {
 public:
  // The budget must outlive the scope.
  explicit BudgetScope(const WorkBudget& budget);
  ~BudgetScope();
  BudgetScope(const BudgetScope&) = delete;
  BudgetScope& operator=(const BudgetScope&) = delete;

 private:
  const WorkBudget* before_;
  MemoryAccount* account_before_;
};

// About 50 ns where there is a budget. Stops work that has taken more memory than there is.
void CheckBudget();
// Before memory is taken for untrusted bytes: stops work that would take more than there is. Counts
// the bytes where no allocation is counted (MemoryTally::told).
void ChargeBudget(size_t bytes);
// A thread's memory that others allocate or free, as of answers that come out of the engine.
void AdoptMemory(size_t bytes);
void DisownMemory(size_t bytes);

}  // namespace banyan
