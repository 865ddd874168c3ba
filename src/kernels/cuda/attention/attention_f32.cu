// Attention over float32 KV: a warp takes a packed row; plain chains in key order, any head size.
// Only keys that the row sees enter its sums.
#include "kernels/cuda/attention/unit.cuh"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/warp.cuh"

namespace banyan::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kKeysPerLane = kCutKeys / 32;
// A head of more values than these takes several passes over the keys.
constexpr int kValuesPerLane = 8;

using Running = RunningPartial<kValuesPerLane>;

// A cut of a row: maximum and sum of its weights.
struct CutWeights {
  float largest, sum;
};

// weights: [kCutKeys] of the warp.
__device__ CutWeights Weigh(const AttentionCall& call, const UnitView& unit, const float* query,
                            int begin, const VisibleKeys& seen, float* weights) {
  const int lane = threadIdx.x % 32, dim = call.shape.head_dim;
  const float scale = unit.ScoreScale();
  float scores[kKeysPerLane];
  float largest = -INFINITY;
#pragma unroll
  for (int j = 0; j < kKeysPerLane; ++j) {
    const int key = begin + j * 32 + lane;
    scores[j] = -INFINITY;
    if (key < seen.first || key >= seen.last) continue;
    const auto* keys = reinterpret_cast<const float*>(unit.BlockOfKey(key)) +
                       static_cast<std::int64_t>(key % kPageTokens) * dim;
    float sum = 0.0f;
    for (int d = 0; d < dim; ++d) sum = fmaf(query[d], keys[d], sum);
    scores[j] = sum * scale;
    largest = fmaxf(largest, scores[j]);
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  }
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kKeysPerLane; ++j) {
    const int key = begin + j * 32 + lane;
    const bool visible = key >= seen.first && key < seen.last;
    const float weight = visible ? exp2f(scores[j] - largest) : 0.0f;
    weights[j * 32 + lane] = weight;
    sum += weight;
  }
  return {largest, WarpSum(sum)};
}

// A packed row's partial, the values from `first` on: lane l has every 32nd from first + l on.
__device__ Running AttendRow(const AttentionCall& call, const UnitView& unit, int i, int first,
                             float* weights) {
  const int lane = threadIdx.x % 32, dim = call.shape.head_dim;
  const int offset = unit.Offset(i);
  const float* query = unit.Query(i);
  Running total, group;
  total.Clear();
  group.Clear();
  for (int begin = unit.key_begin(); begin < unit.key_end(); begin += kCutKeys) {
    if (unit.OpensLaterGroup(begin)) {
      total.Merge(group.max, group.sum, group.value);
      group.Clear();
    }
    const VisibleKeys seen = KeysSeen(offset, call.shape.window, begin, unit.CutEnd(begin));
    if (seen.first >= seen.last) continue;
    const CutWeights cut = Weigh(call, unit, query, begin, seen, weights);
    __syncwarp();
    float value[kValuesPerLane] = {};
    for (int key = seen.first; key < seen.last; ++key) {
      const std::byte* block = unit.BlockOfKey(key);
      const auto* values = reinterpret_cast<const float*>(block + call.kv.layout.value_offset) +
                           static_cast<std::int64_t>(key % kPageTokens) * dim;
      const float weight = weights[key - begin];
#pragma unroll
      for (int j = 0; j < kValuesPerLane; ++j) {
        const int d = first + lane + 32 * j;
        if (d < dim) value[j] = fmaf(weight, values[d], value[j]);
      }
    }
    __syncwarp();
    group.Merge(cut.largest, cut.sum, value);
  }
  total.Merge(group.max, group.sum, group.value);
  return total;
}

// weights: [kCutKeys] of the warp.
__device__ void AttendUnit(const AttentionCall& call, const UnitView& unit, float* weights) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int dim = call.shape.head_dim;
  for (int i = warp; i < min(kBlockRows, unit.rows_left()); i += kWarps) {
    const std::int64_t partial = unit.Partial(i);
    if (partial < 0) continue;
    for (int first = 0; first < dim; first += 32 * kValuesPerLane) {
      const Running total = AttendRow(call, unit, i, first, weights);
#pragma unroll
      for (int j = 0; j < kValuesPerLane; ++j) {
        const int d = first + lane + 32 * j;
        if (d < dim) call.partials.value[partial * dim + d] = total.value[j];
      }
      if (lane > 0 || first > 0) continue;
      call.partials.max[partial] = total.max;
      call.partials.sum[partial] = total.sum;
    }
  }
}

__global__ void AttendKernel(AttentionCall call) {
  __shared__ float weights[kWarps][kCutKeys];
  const int tasks = call.units.counts->wide * call.shape.kv_heads;
  for (int i = static_cast<int>(blockIdx.x); i < tasks; i += static_cast<int>(gridDim.x)) {
    const UnitView unit(call, call.units.many_rows[i / call.shape.kv_heads],
                        i % call.shape.kv_heads);
    AttendUnit(call, unit, weights[threadIdx.x / 32]);
  }
}

}  // namespace

void AttendF32(cudaStream_t stream, int blocks, const AttentionCall& call) {
  AttendKernel<<<static_cast<unsigned>(blocks), kWarps * 32, 0, stream>>>(call);
  CheckLaunch("attention");
}

}  // namespace banyan::cuda
