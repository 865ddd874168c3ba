// What the kernels that turn heads and store them share: a warp takes a head of a row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/pages/kv_tiles.cuh"
#include "kernels/cuda/rows/rotate_store.h"

namespace banyan::cuda {

inline constexpr int kRotatingWarps = 8;

__device__ inline std::byte* BlockOfSlot(const RotateCall& call, std::int32_t slot, int kv_head) {
  const KvLayout& layout = call.kv.layout;
  return call.kv.layer +
         (static_cast<std::int64_t>(slot / kPageTokens) * layout.kv_heads + kv_head) *
             layout.block_bytes;
}

// A line of call.lists for each thread of the grid, as far as they reach.
__device__ inline void FetchLists(const RotateCall& call) {
  constexpr int kLine = 128;
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.y) * gridDim.x + blockIdx.x;
  const std::int64_t at = (block * blockDim.x + threadIdx.x) * kLine;
  if (at < call.lists_bytes) asm volatile("prefetch.global.L2 [%0];\n" ::"l"(call.lists + at));
}

// By one lane.
__device__ inline void FlagToken(const RotateCall& call, std::byte* block, int token, bool unruly) {
  reinterpret_cast<std::uint8_t*>(block + call.kv.layout.flag_offset)[token] = unruly ? 1 : 0;
  if (unruly) *call.kv.any_flag = 1;
}

}  // namespace banyan::cuda
