#include "program/memory_tally.h"

#include <utility>

namespace banyan {

constinit thread_local MemoryTally::Thread MemoryTally::thread_{nullptr, 0};
bool MemoryTally::told = false;

MemoryAccount* MemoryTally::Count(MemoryAccount* account) {
  Settle();
  return std::exchange(thread_.account, account);
}

// What Grow itself allocates is not counted, so that it is never called from within itself.
void MemoryTally::Settle() {
  MemoryAccount* const account = std::exchange(thread_.account, nullptr);
  const std::int64_t bytes = std::exchange(thread_.bytes, 0);
  if (account != nullptr && bytes != 0) account->Grow(bytes);
  thread_.account = account;
}

}  // namespace banyan
