// A ring of stages in shared memory: one thread has the copy engine fill them, warps empty them.
#pragma once

#include <cstdint>

namespace banyan::cuda {

// The place in the ring, for the thread that fills it and for those that empty it.
struct RingPlace {
  int stage = 0;
  unsigned parity = 0;
  __device__ RingPlace Next(int stages) const {
    return stage + 1 < stages ? RingPlace{stage + 1, parity} : RingPlace{0, parity ^ 1u};
  }
};

template <int kMostStages>
struct CopyRing {
  unsigned char* bytes;
  std::uint64_t* barriers;  // [2 * kMostStages]

  // A stage's copies have arrived.
  __device__ std::uint64_t& Full(int stage) const { return barriers[stage]; }
  // All warps have read it.
  __device__ std::uint64_t& Empty(int stage) const { return barriers[kMostStages + stage]; }
};

}  // namespace banyan::cuda
