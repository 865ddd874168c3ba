// What the calling thread allocates while it works for a MemoryAccount (a request of the server).
// A program that replaces operator new tells it of every block; where none does, work is counted by
// what it announces (ChargeBudget of base/work_budget.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace banyan {

// The memory of one piece of work. For any thread.
class MemoryAccount {
 public:
  enum class Room { kFits, kBusy, kNever };  // kBusy: not while others have theirs

  virtual ~MemoryAccount() = default;
  // Counts memory that was taken, or given back; never refuses.
  virtual void Grow(std::int64_t bytes) = 0;
  // Whether the work may have so many bytes more. With 0: what it may have so far.
  virtual Room RoomFor(std::size_t bytes) const = 0;
};

class MemoryTally {
 public:
  // Counts for the account from now on; null: for none. Returns the one before.
  static MemoryAccount* Count(MemoryAccount* account);
  static MemoryAccount* account() { return thread_.account; }

  // A block of so many bytes was allocated or is about to be freed.
  static void Allocated(std::size_t bytes) {
    if (thread_.account != nullptr) Add(static_cast<std::int64_t>(bytes));
  }
  static void Freed(std::size_t bytes) {
    if (thread_.account != nullptr) Add(-static_cast<std::int64_t>(bytes));
  }
  // Reports what is not reported yet: up to 64 KiB are held back.
  static void Settle();

  // Whether this program tells of its blocks. REQUIRES: set before threads are started.
  static bool told;

 private:
  static constexpr std::int64_t kStep = 64 << 10;  // bytes between reports
  struct Thread {
    MemoryAccount* account;
    std::int64_t bytes;  // not reported
  };

  static void Add(std::int64_t bytes) {
    thread_.bytes += bytes;
    if (thread_.bytes >= kStep || thread_.bytes <= -kStep) Settle();
  }

  static constinit thread_local Thread thread_;
};

}  // namespace banyan
