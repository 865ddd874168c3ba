// What a piece of work may cost: a deadline, memory, and whether it was cancelled. A budget applies
// to a thread while its BudgetScope lives. Loops over untrusted bytes (JSON, HTML, schemas,
// tokenizers) call CheckBudget regularly; without a budget it does nothing.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "banyan/error.h"

namespace banyan {

struct WorkBudget {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::function<bool()> unwanted;         // true: cancelled; may be empty
  std::function<bool(size_t)> take_room;  // counts bytes; false: no memory is left; may be empty
};

// Thrown by CheckBudget and ChargeBudget.
class WorkStopped : public Error {
 public:
  enum class Why { kTime, kUnwanted, kRoom };
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
};

// About 50 ns where there is a budget.
void CheckBudget();
// Counts memory that untrusted bytes were turned into.
void ChargeBudget(size_t bytes);

}  // namespace banyan
