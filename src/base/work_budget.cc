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
    case WorkStopped::Why::kNever:
      return "the request takes more memory than this server has for requests";
    case WorkStopped::Why::kRoom:
      break;
  }
  return "too many large requests are being served";
}

void CheckRoom(size_t bytes) {
  MemoryAccount* const memory = thread_budget->memory;
  if (memory == nullptr) return;
  MemoryTally::Settle();
  const MemoryAccount::Room room = memory->RoomFor(bytes);
  if (room == MemoryAccount::Room::kFits) return;
  throw WorkStopped(room == MemoryAccount::Room::kBusy ? WorkStopped::Why::kRoom
                                                       : WorkStopped::Why::kNever);
}

}  // namespace

WorkStopped::WorkStopped(Why why) : std::runtime_error(MessageOf(why)), why_(why) {}

BudgetScope::BudgetScope(const WorkBudget& budget)
    : before_(std::exchange(thread_budget, &budget)),
      account_before_(MemoryTally::Count(MemoryTally::told ? budget.memory : nullptr)) {}

BudgetScope::~BudgetScope() {
  MemoryTally::Count(account_before_);
  thread_budget = before_;
}

void CheckBudget() {
  if (thread_budget == nullptr) return;
  if (thread_budget->unwanted && thread_budget->unwanted()) {
    throw WorkStopped(WorkStopped::Why::kUnwanted);
  }
  if (std::chrono::steady_clock::now() > thread_budget->deadline) {
    throw WorkStopped(WorkStopped::Why::kTime);
  }
  CheckRoom(0);
}

void ChargeBudget(size_t bytes) {
  if (thread_budget == nullptr) return;
  if (thread_budget->memory == nullptr) {
    if (thread_budget->take_room && !thread_budget->take_room(bytes)) {
      throw WorkStopped(WorkStopped::Why::kRoom);
    }
    return;
  }
  CheckRoom(bytes);
  if (!MemoryTally::told) thread_budget->memory->Grow(static_cast<std::int64_t>(bytes));
}

void AdoptMemory(size_t bytes) { MemoryTally::Allocated(bytes); }
void DisownMemory(size_t bytes) { MemoryTally::Freed(bytes); }

}  // namespace banyan
