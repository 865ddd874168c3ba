// Attention over float32 KV: a warp takes a packed row; plain chains in key order, any head size.
// Only keys that the row sees enter its sums.
#include "kernels/cuda/device.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/unit.cuh"

namespace banyan::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kKeysPerLane = kCutKeys / 32;

// weights: [kCutKeys] of the warp.
__device__ void AttendUnit(const AttentionCall& call, const UnitView& unit, float* weights) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int dim = call.shape.head_dim;
  for (int i = warp; i < min(kBlockRows, unit.rows_left()); i += kWarps) {
    const std::int64_t partial = unit.Partial(i);
    if (partial < 0) continue;
    const float* query = unit.Query(i);
    float* total = call.partials.value + partial * dim;
    for (int d = lane; d < dim; d += 32) total[d] = 0.0f;
    float total_max = -INFINITY, total_sum = 0.0f;
    const int offset = unit.Offset(i);
    for (int begin = unit.key_begin(); begin < unit.key_end(); begin += kCutKeys) {
      const int end = unit.CutEnd(begin);
      const VisibleKeys seen = KeysSeen(offset, call.shape.window, begin, end);
      if (seen.first >= seen.last) continue;
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
        scores[j] = sum * (call.shape.scale * kLog2E);
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
      sum = WarpSum(sum);
      __syncwarp();
      const MergeFactors factors = PrepareMerge(total_max, total_sum, largest, sum);
      for (int d = lane; d < dim; d += 32) {
        float value = 0.0f;
        for (int key = seen.first; key < seen.last; ++key) {
          const std::byte* block = unit.BlockOfKey(key);
          const auto* values = reinterpret_cast<const float*>(block + call.kv.layout.value_offset);
          value = fmaf(weights[key - begin],
                       values[static_cast<std::int64_t>(key % kPageTokens) * dim + d], value);
        }
        total[d] = MergeValue(factors, total[d], value);
      }
      __syncwarp();
    }
    if (lane == 0) {
      call.partials.max[partial] = total_max;
      call.partials.sum[partial] = total_sum;
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
