// The budget of the calling thread.
#include "base/work_budget.h"

#include <utility>

namespace banyan {
namespace {

thread_local const WorkBudget* thread_budget = nullptr;

const char* MessageOf(WorkStopped::Why why) {
  switch (why) {
    case WorkStopped::Why::kTime:
      return "the request took too long";
    case WorkStopped::Why::kUnwanted:
      return "the request was cancelled";
    case WorkStopped::Why::kRoom:
      break;
  }
  return "too many large requests are being served";
}

}  // namespace

WorkStopped::WorkStopped(Why why) : Error(ErrorKind::kLimit, MessageOf(why)), why_(why) {}

BudgetScope::BudgetScope(const WorkBudget& budget)
    : before_(std::exchange(thread_budget, &budget)) {}
BudgetScope::~BudgetScope() { thread_budget = before_; }

void CheckBudget() {
  if (thread_budget == nullptr) return;
  if (thread_budget->unwanted && thread_budget->unwanted()) {
    throw WorkStopped(WorkStopped::Why::kUnwanted);
  }
  if (std::chrono::steady_clock::now() > thread_budget->deadline) {
    throw WorkStopped(WorkStopped::Why::kTime);
  }
}

void ChargeBudget(size_t bytes) {
  if (thread_budget == nullptr || !thread_budget->take_room) return;
  if (!thread_budget->take_room(bytes)) throw WorkStopped(WorkStopped::Why::kRoom);
}

}  // namespace banyan
