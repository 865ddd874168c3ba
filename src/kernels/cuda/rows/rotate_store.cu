// Rotation and store of any head, through shared memory, and the choice between this and
// rotate_lanes.cuh.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/device/spread.cuh"
#include "kernels/cuda/pages/kv_tiles.cuh"
#include "kernels/cuda/rows/rotate_common.cuh"
#include "kernels/cuda/rows/rotate_lanes.cuh"
#include "kernels/cuda/rows/rotate_store.h"

namespace banyan::cuda {
namespace {

__device__ void StoreHead(const RotateCall& call, std::int32_t slot, int kv_head, bool is_value,
                          const float* head) {
  const KvLayout& layout = call.kv.layout;
  const int lane = threadIdx.x % 32, token = slot % kPageTokens;
  std::byte* block = BlockOfSlot(call, slot, kv_head);
  std::byte* page = block + (is_value ? layout.value_offset : 0);
  bool unruly = false;
  float largest = 0.0f;
  for (int d = lane; d < layout.head_dim; d += 32) {
    largest = fmaxf(largest, fabsf(head[d]));
    unruly = unruly || Unruly(head[d]) ||
             (call.type == KvType::kF16 && isinf(__half2float(__float2half_rn(head[d]))));
  }
  unruly = __any_sync(0xffffffffu, unruly);
  if (call.type == KvType::kQ8) {
    bool finite = true;
    for (int d = lane; d < layout.head_dim; d += 32) finite = finite && isfinite(head[d]);
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    }
    // The largest magnitude becomes 127; a broken head gets the scale NaN.
    const float scale = __all_sync(0xffffffffu, finite) ? largest / 127.0f : NAN;
    for (int d = lane; d < layout.head_dim; d += 32) {
      const int code = scale > 0.0f ? __float2int_rn(head[d] / scale) : 0;
      reinterpret_cast<std::int8_t*>(page)[CodeOffset(token, d, layout.padded_dim)] =
          static_cast<std::int8_t>(code);
    }
    if (lane == 0) reinterpret_cast<float*>(page + layout.scale_offset)[token] = scale;
  } else {
    for (int d = lane; d < layout.head_dim; d += 32) {
      if (call.type == KvType::kF32) {
        reinterpret_cast<float*>(page)[token * layout.padded_dim + d] = head[d];
        continue;
      }
      const int at = TileOffset(token, d, layout.padded_dim);
      if (call.type == KvType::kF16) reinterpret_cast<__half*>(page)[at] = __float2half_rn(head[d]);
      if (call.type == KvType::kBF16) {
        reinterpret_cast<__nv_bfloat16*>(page)[at] = __float2bfloat16_rn(head[d]);
      }
    }
  }
  if (is_value && lane == 0) FlagToken(call, block, token, unruly);
}

// Zeros in the padding.
__device__ void StoreScaledQuery(const RotateCall& call, int row, int query, const float* head) {
  const KvLayout& layout = call.kv.layout;
  const std::int64_t first =
      (static_cast<std::int64_t>(row) * call.heads + query) * layout.padded_dim;
  for (int d = threadIdx.x % 32; d < layout.padded_dim; d += 32) {
    const float value = d < layout.head_dim ? __fmul_rn(head[d], call.query_scale) : 0.0f;
    if (call.type == KvType::kBF16) {
      static_cast<__nv_bfloat16*>(call.scaled_query)[first + d] = __float2bfloat16_rn(value);
    } else {  // codes are multiplied as half precision
      static_cast<__half*>(call.scaled_query)[first + d] = __float2half_rn(value);
    }
  }
}

// 1 / rms of the values, the same for every lane.
__device__ float InverseRms(const float* values, int count, float eps) {
  float sum = 0.0f;
  for (int i = threadIdx.x % 32; i < count; i += 32) sum = fmaf(values[i], values[i], sum);
  return 1.0f / sqrtf(WarpSum(sum) / static_cast<float>(count) + eps);
}

// Grid (rows, blocks of heads); with a norm over all heads one block takes the whole row, so that
// nobody reads values that another block has already turned.
__global__ void RotateKernel(RotateCall call) {
  extern __shared__ float shared[];  // [kRotatingWarps, head_dim]
  LetNextKernelStart();
  FetchLists(call);
  WaitForEarlierKernels();
  const KvLayout& layout = call.kv.layout;
  const int dim = layout.head_dim;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.x;
  float* qkv = call.qkv + row * call.stride;
  const int queries = call.heads, keys = layout.kv_heads;
  float whole_query = 0.0f, whole_key = 0.0f;
  if (call.query_norm != nullptr && call.whole_norm) {
    whole_query = InverseRms(qkv, queries * dim, call.eps);
    whole_key = InverseRms(qkv + queries * dim, keys * dim, call.eps);
    __syncthreads();
  }
  float* head = shared + warp * dim;
  for (int h = blockIdx.y * kRotatingWarps + warp; h < queries + 2 * keys;
       h += gridDim.y * kRotatingWarps) {
    float* values = qkv + h * dim;
    const bool is_query = h < queries, is_value = h >= queries + keys;
    for (int d = lane; d < dim; d += 32) head[d] = values[d];
    __syncwarp();
    if (!is_value) {
      if (call.query_norm != nullptr) {
        const float* weight = is_query ? call.query_norm : call.key_norm;
        if (call.whole_norm) weight += (is_query ? h : h - queries) * dim;
        const float scale = !call.whole_norm ? InverseRms(head, dim, call.eps)
                            : is_query       ? whole_query
                                             : whole_key;
        for (int d = lane; d < dim; d += 32) {
          head[d] = __fmul_rn(__fmul_rn(head[d], scale), weight[d]);
        }
        __syncwarp();
      }
      const std::int64_t angles = static_cast<std::int64_t>(row) * call.pairs;
      for (int i = lane; i < call.pairs; i += 32) {
        const float c = call.cosine[angles + i], s = call.sine[angles + i];
        const float a = head[i], b = head[i + call.pairs];
        head[i] = __fsub_rn(__fmul_rn(a, c), __fmul_rn(b, s));
        head[i + call.pairs] = __fadd_rn(__fmul_rn(b, c), __fmul_rn(a, s));
      }
      __syncwarp();
      if (is_query && call.query_factor != nullptr) {
        const float factor = call.query_factor[row];
        for (int d = lane; d < dim; d += 32) head[d] = __fmul_rn(head[d], factor);
        __syncwarp();
      }
    }
    if (call.type == KvType::kQ8) SpreadShared(HeadSpreadWidth(dim), dim, head);
    if (!is_value && call.scaled_query == nullptr) {
      for (int d = lane; d < dim; d += 32) values[d] = head[d];
    }
    if (is_query && call.scaled_query != nullptr) StoreScaledQuery(call, row, h, head);
    if (!is_query) {
      StoreHead(call, call.slots[row], (h - queries) % keys, is_value, head);
    }
    __syncwarp();
  }
}

}  // namespace

void RotateAndStoreRows(cudaStream_t stream, const RotateCall& call) {
  if (call.rows == 0) return;
  const KvLayout& layout = call.kv.layout;
  const int heads = call.heads + 2 * layout.kv_heads;
  const auto rows = static_cast<unsigned>(call.rows);
  const auto across =
      static_cast<unsigned>(call.whole_norm ? 1 : (heads + kRotatingWarps - 1) / kRotatingWarps);
  const bool sixteen_bits = call.type == KvType::kF16 || call.type == KvType::kBF16;
  const bool whole_head = 2 * call.pairs == layout.head_dim && !call.whole_norm && sixteen_bits;
  LaunchShape launch{dim3(rows, across), kRotatingWarps * 32};
  auto kernel = RotateKernel;
  if (whole_head && (layout.head_dim == 64 || layout.head_dim == 128)) {
    const bool f16 = call.type == KvType::kF16;
    if (layout.head_dim == 64) {
      kernel = f16 ? RotateLanesKernel<__half, 2> : RotateLanesKernel<__nv_bfloat16, 2>;
    } else {
      kernel = f16 ? RotateLanesKernel<__half, 4> : RotateLanesKernel<__nv_bfloat16, 4>;
    }
  } else {
    launch.shared_bytes = sizeof(float) * kRotatingWarps * static_cast<size_t>(layout.head_dim);
  }
  LaunchEarly(stream, launch, "rotate and store", kernel, call);
}

}  // namespace banyan::cuda
