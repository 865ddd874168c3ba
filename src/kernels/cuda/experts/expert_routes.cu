// Routing: scores → choices → slots and tiles; and what lies between the products of experts: rows
// gathered by slot, the gate, and the sum of a row's experts.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/warp.cuh"
#include "kernels/cuda/experts/expert_gate.cuh"
#include "kernels/cuda/experts/expert_kernels.h"

namespace banyan::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kGroupThreads = 1024, kGroupWarps = kGroupThreads / 32;
static_assert(kMostExperts <= kGroupThreads && kMostExperts <= 32 * 32);
constexpr int kOneBlockRows = 2 * kGroupWarps;  // rows that one block chooses for and groups

std::int64_t Aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

std::int64_t MostTiles(std::int64_t slots) { return kMostExperts + slots / kPlainExpertRows; }

// A number that is larger for a larger score, for every finite or infinite one.
__device__ std::uint32_t OrderOf(float score) {
  const std::uint32_t bits = __float_as_uint(__fadd_rn(score, 0.0f));  // no -0
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

__device__ double Logistic(float score) { return 1.0 / (1.0 + exp(-static_cast<double>(score))); }

__device__ float ScaledShare(const ShareRule& rule, int expert, float share) {
  return rule.share_scales == nullptr ? share : __fmul_rn(share, rule.share_scales[expert]);
}

// Of the chosen experts `found`, whose scores are among `mine`.
__device__ void ShareByLogistic(const float* mine, const ShareRule& rule, int chosen,
                                const int* found, ExpertChoice* choices) {
  const auto logistic = [&](int n) {
    const float score = mine[found[n]];
    return score == score ? Logistic(score) : 0.0;
  };
  double sum = 1.0;
  if (rule.shares == ExpertShares::kLogisticOfChosen) {
    sum = kLogisticEps;
    for (int n = 0; n < chosen; ++n) sum += logistic(n);
  }
  for (int n = static_cast<int>(threadIdx.x) % 32; n < chosen; n += 32) {
    int rank = 0;
    for (int other = 0; other < chosen; ++other) rank += found[other] < found[n] ? 1 : 0;
    const auto share = static_cast<float>(logistic(n) / sum * rule.scale);
    choices[rank] = {found[n], ScaledShare(rule, found[n], share)};
  }
  __syncwarp();
}

// A warp has a row, lane l the experts l, l + 32, …. NaN is worse than everything; of equal scores
// the lower number is better.
template <int kPerLane>
__device__ void ChooseForRow(const float* mine, const ShareRule& rule, int experts, int chosen,
                             float* found_scores, int* found, ExpertChoice* choices) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float scores[kPerLane];  // what decides
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int expert = lane + 32 * i;
    const float score = expert < experts ? mine[expert] : 0.0f;
    scores[i] = score == score ? score : -INFINITY;
    if (rule.choice_biases != nullptr && expert < experts) {
      scores[i] = static_cast<float>(Logistic(scores[i]) + rule.choice_biases[expert]);
    }
  }
  std::uint32_t taken = 0;  // bit i: expert lane + 32 i
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    if (lane + 32 * i >= experts) taken |= 1u << i;
  }
  for (int n = 0; n < chosen; ++n) {
    std::uint32_t best = 0;  // no score has this order
    int best_at = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const std::uint32_t order = (taken >> i & 1u) != 0 ? 0u : OrderOf(scores[i]);
      if (order > best) {
        best = order;
        best_at = i;
      }
    }
    const std::uint32_t largest = __reduce_max_sync(0xffffffffu, best);
    const std::uint32_t expert = __reduce_min_sync(
        0xffffffffu,
        best == largest ? static_cast<std::uint32_t>(lane + 32 * best_at) : 0xffffffffu);
    if (expert % 32 == static_cast<std::uint32_t>(lane)) {
      taken |= 1u << (expert / 32);
      float score = scores[0];
#pragma unroll
      for (int i = 1; i < kPerLane; ++i) {
        if (expert / 32 == static_cast<std::uint32_t>(i)) score = scores[i];
      }
      found[n] = static_cast<int>(expert);
      found_scores[n] = score;
    }
  }
  __syncwarp();
  if (rule.logistic()) return ShareByLogistic(mine, rule, chosen, found, choices);
  const float largest = found_scores[0];
  const auto power = [&](float score) { return score == largest ? 1.0f : expf(score - largest); };
  float sum = 0.0f;
  if (rule.shares == ExpertShares::kOfAll) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (lane + 32 * i < experts) sum = __fadd_rn(sum, power(scores[i]));
    }
    sum = WarpSum(sum);
  } else {
    for (int n = 0; n < chosen; ++n) sum = __fadd_rn(sum, power(found_scores[n]));
  }
  for (int n = lane; n < chosen; n += 32) {
    int rank = 0;
    for (int other = 0; other < chosen; ++other) rank += found[other] < found[n] ? 1 : 0;
    choices[rank] = {found[n], ScaledShare(rule, found[n], power(found_scores[n]) / sum)};
  }
  __syncwarp();
}

__device__ void ChooseForRow(const float* mine, const ShareRule& rule, const ExpertRoutes& routes,
                             int row, float* found_scores, int* found) {
  ExpertChoice* choices = routes.choices + row * routes.chosen;
  if (routes.experts <= 128) {
    ChooseForRow<4>(mine, rule, routes.experts, routes.chosen, found_scores, found, choices);
  } else {
    ChooseForRow<kMostExperts / 32>(mine, rule, routes.experts, routes.chosen, found_scores, found,
                                    choices);
  }
}

__global__ void ChooseKernel(const float* scores, std::int64_t stride, ShareRule rule,
                             ExpertRoutes routes) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  __shared__ float found_scores[kWarps][kMostChosen];
  __shared__ int found[kWarps][kMostChosen];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = static_cast<int>(blockIdx.x) * kWarps + warp;
  if (row >= routes.rows) return;
  ChooseForRow(scores + row * stride, rule, routes, row, found_scores[warp], found[warp]);
}

// The sums of the values of all threads before this one, each beside its sum over all threads.
struct SumsBefore {
  int before[3], all[3];
};
__device__ SumsBefore SumBefore(const int (&values)[3], int (*scratch)[3]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  SumsBefore sums{};
  for (int i = 0; i < 3; ++i) {
    int up_to = values[i];
    for (int distance = 1; distance < 32; distance *= 2) {
      const int more = __shfl_up_sync(~0u, up_to, distance);
      if (lane >= distance) up_to += more;
    }
    sums.before[i] = up_to - values[i];
    if (lane == 31) scratch[warp][i] = up_to;
  }
  __syncthreads();
  for (int i = 0; i < 3; ++i) {
    const int of_warp = scratch[lane][i];
    int before = lane < warp ? of_warp : 0, all = of_warp;
    for (int offset = 16; offset > 0; offset /= 2) {
      before += __shfl_xor_sync(~0u, before, offset);
      all += __shfl_xor_sync(~0u, all, offset);
    }
    sums.before[i] += before;
    sums.all[i] = all;
  }
  return sums;
}

// Choices in ranges, of which a warp each finds the slots in order.
constexpr int kRanges = 16;
static_assert(kRanges <= kGroupWarps && kMostExperts % 2 == 0);

// Of each range and expert: choices in the range, then choices before those not yet placed. A row
// chooses an expert once at most, so that 16 bits are enough for fewer than 2^16 rows.
struct RangeCounts {
  std::uint32_t pairs[kRanges][kMostExperts / 2];

  __device__ std::uint16_t& At(int range, int expert) {
    return reinterpret_cast<std::uint16_t*>(pairs[range])[expert];
  }
  __device__ void Count(int range, int expert) {
    atomicAdd(&pairs[range][expert / 2], expert % 2 == 0 ? 1u : 1u << 16);
  }
};

// One block; thread e has expert e. The slots of an expert are in the order of its rows, so that
// all shards have the same.
__device__ void Group(const ExpertRoutes& routes, RangeCounts& counts) {
  __shared__ int first_slots[kGroupThreads];
  __shared__ int scratch[kGroupWarps][3];
  const int me = static_cast<int>(threadIdx.x), slots = routes.rows * routes.chosen;
  const int range_size = (slots + kRanges * 32 - 1) / (kRanges * 32) * 32;
  const int pairs = (routes.experts + 1) / 2;
  for (int i = me; i < kRanges * pairs; i += kGroupThreads) counts.pairs[i / pairs][i % pairs] = 0;
  __syncthreads();
#pragma unroll 4
  for (int i = me; i < slots; i += kGroupThreads) {
    counts.Count(i / range_size, routes.choices[i].expert);
  }
  __syncthreads();
  int count = 0;
  if (me < routes.experts) {
#pragma unroll
    for (int range = 0; range < kRanges; ++range) {
      std::uint16_t& of_range = counts.At(range, me);
      const int before = count;
      count += of_range;
      of_range = static_cast<std::uint16_t>(before);
    }
  }
  const bool few = count > 0 && count <= routes.tiling.few;
  const int many = few ? 0 : (count + routes.tiling.many - 1) / routes.tiling.many;
  const SumsBefore sums = SumBefore({count, few ? 1 : 0, many}, scratch);
  if (me == 0) {
    *routes.few.count = sums.all[1];
    *routes.many.count = sums.all[2];
  }
  const int first_slot = sums.before[0];
  if (few) routes.few.tiles[sums.before[1]] = {me, first_slot, count};
  if (many > 0) {
    // Of about one size, a multiple of eight rows.
    const int size = min(routes.tiling.many, ((count + many - 1) / many + 7) / 8 * 8);
    for (int tile = 0; tile < many; ++tile) {
      const int begin = min(tile * size, count);
      routes.many.tiles[sums.before[2] + tile] = {me, first_slot + begin, min(size, count - begin)};
    }
  }
  first_slots[me] = first_slot;
  __syncthreads();
  const int range = me / 32, lane = me % 32;
  if (range >= kRanges) return;
  const int end = min(slots, (range + 1) * range_size);
  for (int first = range * range_size; first < end; first += 32) {
    const int i = first + lane;
    const int expert = i < end ? routes.choices[i].expert : -1;
    const unsigned same = __match_any_sync(~0u, expert);
    const int rank = __popc(same & ((1u << lane) - 1));
    const int before = i < end ? counts.At(range, expert) : 0;
    __syncwarp();
    if (i < end) {
      const int slot = first_slots[expert] + before + rank;
      routes.place[i] = slot;
      routes.row[slot] = i / routes.chosen;
      if (rank == 0) counts.At(range, expert) = static_cast<std::uint16_t>(before + __popc(same));
    }
    __syncwarp();
  }
}

__global__ void __launch_bounds__(kGroupThreads) GroupKernel(ExpertRoutes routes) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  __shared__ RangeCounts counts;
  Group(routes, counts);
}

// Both for few rows.
__global__ void __launch_bounds__(kGroupThreads)
    RouteKernel(const float* scores, std::int64_t stride, ShareRule rule, ExpertRoutes routes) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  __shared__ union {
    struct {
      float scores[kGroupWarps][kMostChosen];
      int experts[kGroupWarps][kMostChosen];
    } found;
    RangeCounts counts;
  } shared;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int row = warp; row < routes.rows; row += kGroupWarps) {
    ChooseForRow(scores + row * stride, rule, routes, row, shared.found.scores[warp],
                 shared.found.experts[warp]);
  }
  __syncthreads();
  Group(routes, shared.counts);
}

// --- Rows of experts: gather, gate, sum ---------------------------------------------------------
constexpr int kThreads = 256, kSumThreads = 128;

// The padding becomes zero, for products to read.
__global__ void GateKernel(ExpertGate gate, const float* x, std::int64_t x_stride, RowLayout range,
                           RowOutput out) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= range.stride) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    const float* row = x + r * x_stride;
    const float value =
        c < range.columns ? GatedByExpert(gate, row[c], row[range.columns + c]) : 0.0f;
    if (out.bf16 != nullptr) {
      out.bf16[r * range.stride + c] = __float2bfloat16_rn(value);
    } else {
      out.float32[r * range.stride + c] = value;
    }
  }
}

// Four columns a thread.
__global__ void __launch_bounds__(kSumThreads)
    SumKernel(ExpertRoutes routes, const float* x, RowLayout range, float* out) {
  __shared__ float shares[kMostChosen];
  __shared__ std::int64_t places[kMostChosen];
  LetNextKernelStart();
  WaitForEarlierKernels();
  const int me = static_cast<int>(threadIdx.x);
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.x) * kSumThreads + me) * 4;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    __syncthreads();
    if (me < routes.chosen) {
      shares[me] = routes.choices[r * routes.chosen + me].share;
      places[me] = routes.place[r * routes.chosen + me] * range.stride;
    }
    __syncthreads();
    if (c >= range.columns) continue;
    float sums[4] = {};
#pragma unroll 8
    for (int i = 0; i < routes.chosen; ++i) {
      const float4 four = *reinterpret_cast<const float4*>(x + places[i] + c);
      sums[0] = __fmaf_rn(shares[i], four.x, sums[0]);
      sums[1] = __fmaf_rn(shares[i], four.y, sums[1]);
      sums[2] = __fmaf_rn(shares[i], four.z, sums[2]);
      sums[3] = __fmaf_rn(shares[i], four.w, sums[3]);
    }
    float* const to = out + r * range.stride + c;
    if (c + 4 <= range.columns) {
      *reinterpret_cast<float4*>(to) = make_float4(sums[0], sums[1], sums[2], sums[3]);
    } else {
      for (int i = 0; i < 4 && c + i < range.columns; ++i) to[i] = sums[i];
    }
  }
}

// 16 bytes a thread.
__global__ void GatherRowsKernel(ExpertRoutes routes, const uint4* x, std::int64_t pieces,
                                 uint4* out) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= pieces) return;
  for (std::int64_t slot = blockIdx.y; slot < routes.rows * routes.chosen; slot += gridDim.y) {
    out[slot * pieces + c] = x[routes.row[slot] * pieces + c];
  }
}

LaunchShape GridOf(std::int64_t columns, std::int64_t rows, int threads = kThreads) {
  return {dim3(static_cast<unsigned>((columns + threads - 1) / threads),
               static_cast<unsigned>(rows < 65535 ? rows : 65535)),
          threads};
}

}  // namespace

std::int64_t RoutesBytes(std::int64_t rows, std::int64_t chosen) {
  const std::int64_t slots = rows * chosen;
  return Aligned(slots * static_cast<std::int64_t>(sizeof(ExpertChoice))) + 2 * Aligned(slots * 4) +
         2 * Aligned(MostTiles(slots) * static_cast<std::int64_t>(sizeof(ExpertTile))) + Aligned(8);
}

ExpertRoutes RoutesIn(void* memory, int rows, int experts, int chosen, ExpertTiling tiling) {
  ExpertRoutes routes;
  routes.rows = rows;
  routes.experts = experts;
  routes.chosen = chosen;
  routes.tiling = tiling;
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
  for (ExpertTiles* tiles : {&routes.few, &routes.many}) {
    tiles->tiles = reinterpret_cast<ExpertTile*>(
        take(MostTiles(slots) * static_cast<std::int64_t>(sizeof(ExpertTile))));
  }
  routes.few.count = reinterpret_cast<std::int32_t*>(take(8));
  routes.many.count = routes.few.count + 1;
  return routes;
}

void RouteRows(cudaStream_t stream, const float* scores, std::int64_t stride, const ShareRule& rule,
               const ExpertRoutes& routes) {
  if (routes.rows == 0) return;
  if (routes.rows <= kOneBlockRows) {
    return LaunchEarly(stream, {dim3(1), kGroupThreads}, "choice of experts", RouteKernel, scores,
                       stride, rule, routes);
  }
  const auto blocks = static_cast<unsigned>((routes.rows + kWarps - 1) / kWarps);
  LaunchEarly(stream, {dim3(blocks), kWarps * 32}, "choice of experts", ChooseKernel, scores,
              stride, rule, routes);
  LaunchEarly(stream, {dim3(1), kGroupThreads}, "rows by expert", GroupKernel, routes);
}

void GateExperts(cudaStream_t stream, const ExpertGate& gate, const float* x, std::int64_t x_stride,
                 RowLayout range, RowOutput out) {
  if (range.empty()) return;
  LaunchEarly(stream, GridOf(range.stride, range.rows), "gates of experts", GateKernel, gate, x,
              x_stride, range, out);
}

void SumExperts(cudaStream_t stream, const ExpertRoutes& routes, const float* x, RowLayout range,
                float* out) {
  if (range.empty()) return;
  LaunchEarly(stream, GridOf((range.columns + 3) / 4, range.rows, kSumThreads), "sum of experts",
              SumKernel, routes, x, range, out);
}

void GatherExpertRows(cudaStream_t stream, const ExpertRoutes& routes, const void* x,
                      std::int64_t row_bytes, void* out) {
  if (routes.slots() == 0) return;
  const std::int64_t pieces = row_bytes / 16;
  LaunchEarly(stream, GridOf(pieces, routes.slots()), "rows of experts", GatherRowsKernel, routes,
              static_cast<const uint4*>(x), pieces, static_cast<uint4*>(out));
}

}  // namespace banyan::cuda
