// A MemoryAccount that a test looks into.
#pragma once

#include <cstdint>
#include <limits>

#include "program/memory_tally.h"

namespace banyan::testing_support {

struct CountedMemory : MemoryAccount {
  void Grow(std::int64_t bytes) override { taken += bytes; }
  Room RoomFor(std::size_t bytes) const override {
    return taken + static_cast<std::int64_t>(bytes) <= most ? Room::kFits : refusal;
  }

  std::int64_t taken = 0, most = std::numeric_limits<std::int64_t>::max() / 2;
  Room refusal = Room::kBusy;
};

}  // namespace banyan::testing_support
