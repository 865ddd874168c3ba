// Scores → choices → slots and tiles.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/experts/expert_kernels.h"

namespace banyan::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kGroupThreads = 1024;
static_assert(kMostExperts <= kGroupThreads && kMostExperts <= 32 * 32);

std::int64_t Aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

std::int64_t MostTiles(std::int64_t slots) { return kMostExperts + slots / kExpertTileRows; }

// NaN is worse than everything; of equal scores the lower number is better.
struct Candidate {
  float score;
  int expert;  // kMostExperts: none
};
__device__ bool Better(const Candidate& a, const Candidate& b) {
  if (b.expert == kMostExperts || a.expert == kMostExperts) return a.expert < b.expert;
  return a.score > b.score || (a.score == b.score && a.expert < b.expert);
}

// A warp has a row, lane l the experts l, l + 32, ….
__global__ void ChooseKernel(const float* scores, std::int64_t stride, ExpertShares shares,
                             ExpertRoutes routes) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  __shared__ Candidate found[kWarps][kMostChosen];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(blockIdx.x) * kWarps + warp;
  if (row >= routes.rows) return;
  const float* mine = scores + row * stride;
  const auto score_of = [&](int expert) {
    const float score = mine[expert];
    return score == score ? score : -INFINITY;
  };
  std::uint32_t taken = 0;  // bit i: expert lane + 32 i
  for (int n = 0; n < routes.chosen; ++n) {
    Candidate best{0.0f, kMostExperts};
    for (int i = 0, expert = lane; expert < routes.experts; ++i, expert += 32) {
      const Candidate candidate{score_of(expert), expert};
      if ((taken >> i & 1u) == 0 && Better(candidate, best)) best = candidate;
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      const Candidate other{__shfl_xor_sync(0xffffffffu, best.score, offset),
                            __shfl_xor_sync(0xffffffffu, best.expert, offset)};
      if (Better(other, best)) best = other;
    }
    if (best.expert % 32 == lane) taken |= 1u << (best.expert / 32);
    if (lane == 0) found[warp][n] = best;
  }
  __syncwarp();
  const float largest = found[warp][0].score;
  const auto power = [&](float score) { return score == largest ? 1.0f : expf(score - largest); };
  float sum = 0.0f;
  if (shares == ExpertShares::kOfAll) {
    for (int expert = lane; expert < routes.experts; expert += 32) {
      sum = __fadd_rn(sum, power(score_of(expert)));
    }
    sum = WarpSum(sum);
  } else {
    for (int n = 0; n < routes.chosen; ++n) sum = __fadd_rn(sum, power(found[warp][n].score));
  }
  for (int n = lane; n < routes.chosen; n += 32) {
    const Candidate& one = found[warp][n];
    int rank = 0;
    for (int other = 0; other < routes.chosen; ++other) {
      rank += found[warp][other].expert < one.expert ? 1 : 0;
    }
    routes.choices[row * routes.chosen + rank] = {one.expert, power(one.score) / sum};
  }
}

// The sum of the values of all threads before this one; *all is that of all threads.
__device__ int SumBefore(int value, int* scratch, int* all) {
  const int me = static_cast<int>(threadIdx.x);
  scratch[me] = value;
  __syncthreads();
  for (int distance = 1; distance < kGroupThreads; distance *= 2) {
    const int more = me >= distance ? scratch[me - distance] : 0;
    __syncthreads();
    scratch[me] += more;
    __syncthreads();
  }
  const int before = scratch[me] - value;
  *all = scratch[kGroupThreads - 1];
  __syncthreads();
  return before;
}

// One block; thread e has expert e. The order of rows within an expert is whichever comes: nothing
// depends on it.
__global__ void __launch_bounds__(kGroupThreads) GroupKernel(ExpertRoutes routes) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  __shared__ int counts[kGroupThreads], scratch[kGroupThreads];
  const int me = static_cast<int>(threadIdx.x), slots = routes.rows * routes.chosen;
  counts[me] = 0;
  __syncthreads();
  for (int i = me; i < slots; i += kGroupThreads) atomicAdd(&counts[routes.choices[i].expert], 1);
  __syncthreads();
  const int count = counts[me], tiles = (count + kExpertTileRows - 1) / kExpertTileRows;
  int all = 0;
  const int first_slot = SumBefore(count, scratch, &all);
  const int first_tile = SumBefore(tiles, scratch, &all);
  if (me == 0) *routes.tile_count = all;
  for (int tile = 0; tile < tiles; ++tile) {
    const int begin = tile * kExpertTileRows;
    routes.tiles[first_tile + tile] = {me, first_slot + begin, min(kExpertTileRows, count - begin)};
  }
  counts[me] = first_slot;
  __syncthreads();
  for (int i = me; i < slots; i += kGroupThreads) {
    const int slot = atomicAdd(&counts[routes.choices[i].expert], 1);
    routes.place[i] = slot;
    routes.row[slot] = i / routes.chosen;
  }
}

}  // namespace

std::int64_t RoutesBytes(std::int64_t rows, std::int64_t chosen) {
  const std::int64_t slots = rows * chosen;
  return Aligned(slots * static_cast<std::int64_t>(sizeof(ExpertChoice))) + 2 * Aligned(slots * 4) +
         Aligned(MostTiles(slots) * static_cast<std::int64_t>(sizeof(ExpertTile))) + Aligned(4);
}

ExpertRoutes RoutesIn(void* memory, int rows, int experts, int chosen) {
  ExpertRoutes routes;
  routes.rows = rows;
  routes.experts = experts;
  routes.chosen = chosen;
  const std::int64_t slots = routes.slots();
  auto* next = static_cast<std::uint8_t*>(memory);
  const auto take = [&](std::int64_t bytes) {
    std::uint8_t* const here = next;
    next += Aligned(bytes);
    return here;
  };
  routes.choices = reinterpret_cast<ExpertChoice*>(
      take(slots * static_cast<std::int64_t>(sizeof(ExpertChoice))));
  routes.place = reinterpret_cast<std::int32_t*>(take(slots * 4));
  routes.row = reinterpret_cast<std::int32_t*>(take(slots * 4));
  routes.tiles = reinterpret_cast<ExpertTile*>(
      take(MostTiles(slots) * static_cast<std::int64_t>(sizeof(ExpertTile))));
  routes.tile_count = reinterpret_cast<std::int32_t*>(take(4));
  return routes;
}

void RouteRows(cudaStream_t stream, const float* scores, std::int64_t stride, ExpertShares shares,
               const ExpertRoutes& routes) {
  if (routes.rows == 0) return;
  const auto blocks = static_cast<unsigned>((routes.rows + kWarps - 1) / kWarps);
  LaunchEarly(stream, {dim3(blocks), kWarps * 32}, "choice of experts", ChooseKernel, scores,
              stride, shares, routes);
  LaunchEarly(stream, {dim3(1), kGroupThreads}, "rows by expert", GroupKernel, routes);
}

}  // namespace banyan::cuda
