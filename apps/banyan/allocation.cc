// The program's operator new: tells what a request of the server allocates, and keeps a reserve for
// the moment in which the system has no memory: the engine's thread, where nobody could catch what
// it throws while it hands over answers, goes on. The part of the program that is no library, so
// that nobody who links the library gets it.
#include <malloc.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "program/memory_tally.h"

namespace {

using banyan::MemoryTally;

// 64 blocks, each for one allocation of up to its size. Untouched pages take no memory.
class Reserve {
 public:
  void* Take(std::size_t bytes) {
    if (bytes > kBlock) return nullptr;
    std::uint64_t taken = taken_.load();
    while (~taken != 0) {
      const int block = std::countr_one(taken);
      if (taken_.compare_exchange_weak(taken, taken | std::uint64_t{1} << block)) {
        return blocks_ + static_cast<std::size_t>(block) * kBlock;
      }
    }
    return nullptr;
  }
  bool Has(const void* memory) const {
    return memory >= blocks_ && memory < blocks_ + sizeof(blocks_);
  }
  void Give(void* memory) {
    const auto block = static_cast<std::size_t>(static_cast<std::byte*>(memory) - blocks_) / kBlock;
    taken_ &= ~(std::uint64_t{1} << block);
  }

 private:
  static constexpr std::size_t kBlock = 64 << 10, kCount = 64;
  std::atomic<std::uint64_t> taken_{0};  // one bit for a block
  alignas(std::max_align_t) std::byte blocks_[kCount * kBlock]{};
};

constinit Reserve reserve;

[[maybe_unused]] const bool told = MemoryTally::told = true;

void Free(void* memory) {
  if (memory == nullptr) return;
  if (reserve.Has(memory)) return reserve.Give(memory);
  if (MemoryTally::account() != nullptr) MemoryTally::Freed(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

// The library's other forms call these, but for those with an alignment, which no request uses.
// That which does not throw stands here too: a sanitizer's own would give memory that Free does not
// know.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) {
    memory = reserve.Take(size);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  if (MemoryTally::account() != nullptr) MemoryTally::Allocated(::malloc_usable_size(memory));
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { Free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { Free(memory); }
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  Free(memory);
}
