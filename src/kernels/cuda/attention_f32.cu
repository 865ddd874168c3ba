// Attention over float32 KV: a warp takes a packed row; plain chains in key order, any head size.
// Only keys that the row sees enter its sums.
#include "kernels/cuda/device.h"
#include "kernels/cuda/partial.cuh"
#include "kernels/cuda/reduce.cuh"

namespace banyan::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kKeysPerLane = kCutKeys / 32;

struct PackedRow {
  int row = 0;   // of the step
  int head = 0;  // query head
  bool reader = false;
  std::int64_t partial = 0;  // index of its (partial, head)
};

__device__ PackedRow UnpackRow(const AttentionCall& call, const WorkItem& item, int kv_head,
                               int packed) {
  const int ratio = call.shape.heads / call.shape.kv_heads;
  PackedRow result;
  result.row = item.row_begin + packed / ratio;
  result.head = kv_head * ratio + packed % ratio;
  result.reader = result.row >= item.reader_begin && result.row < item.reader_end;
  result.partial = static_cast<std::int64_t>(item.first_partial + result.row - item.reader_begin) *
                       call.shape.heads +
                   result.head;
  return result;
}

__global__ void AttendKernel(AttentionCall call) {
  __shared__ float all_weights[kWarps][kCutKeys];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const WorkUnit unit = call.units[blockIdx.x / call.shape.kv_heads];
  const int kv_head = blockIdx.x % call.shape.kv_heads;
  const WorkItem& item = unit.item;
  const KvSpan& span = unit.span;
  const int ratio = call.shape.heads / call.shape.kv_heads;
  const int dim = call.shape.head_dim;
  const int packed_rows = (item.row_end - item.row_begin) * ratio;
  float* weights = all_weights[warp];

  for (int i = warp; i < kUnitRows; i += kWarps) {
    const int packed = unit.first_packed_row + i;
    if (packed >= packed_rows) break;
    const PackedRow row = UnpackRow(call, item, kv_head, packed);
    if (!row.reader) continue;
    const float* query =
        call.query + row.row * call.query_stride + static_cast<std::int64_t>(row.head) * dim;
    float* total = call.partials.value + row.partial * dim;
    float total_max = -INFINITY, total_sum = 0.0f;
    const int offset = call.positions[row.row] - span.first_position;
    for (int begin = item.key_begin; begin < item.key_end; begin += kCutKeys) {
      const int end = min(begin + kCutKeys, item.key_end);
      const VisibleKeys seen = KeysSeen(offset, call.shape.window, begin, end);
      if (seen.first >= seen.last) continue;
      float scores[kKeysPerLane];
      float largest = -INFINITY;
#pragma unroll
      for (int j = 0; j < kKeysPerLane; ++j) {
        const int key = begin + j * 32 + lane;
        scores[j] = -INFINITY;
        if (key < seen.first || key >= seen.last) continue;
        const auto* keys = reinterpret_cast<const float*>(BlockOfKey(call, span, kv_head, key)) +
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
          const std::byte* block = BlockOfKey(call, span, kv_head, key);
          const auto* values = reinterpret_cast<const float*>(block + call.kv.layout.value_offset);
          value = fmaf(weights[key - begin],
                       values[static_cast<std::int64_t>(key % kPageTokens) * dim + d], value);
        }
        total[d] = MergeValue(factors, factors.take ? 0.0f : total[d], value);
      }
      __syncwarp();
    }
    if (lane == 0) {
      call.partials.max[row.partial] = total_max;
      call.partials.sum[row.partial] = total_sum;
    }
  }
}

}  // namespace

void AttendF32(cudaStream_t stream, const AttentionCall& call) {
  const auto blocks = static_cast<unsigned>(call.unit_count * call.shape.kv_heads);
  AttendKernel<<<blocks, kWarps * 32, 0, stream>>>(call);
  CheckLaunch("attention");
}

}  // namespace banyan::cuda
