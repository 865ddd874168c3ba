// Rotary embedding and the store of K and V (rope_store.h): a warp takes a head of a row, in
// registers where the head allows it, else in shared memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/device/warp.cuh"
#include "kernels/cuda/pages/kv_tiles.cuh"
#include "kernels/cuda/rows/rope_store.h"

namespace banyan::cuda {

namespace {

constexpr int kRotatingWarps = 8;

__device__ std::byte* BlockOfSlot(const RotateCall& call, std::int32_t slot, int kv_head) {
  const KvLayout& layout = call.kv.layout;
  return call.kv.layer +
         (static_cast<std::int64_t>(slot / kPageTokens) * layout.kv_heads + kv_head) *
             layout.block_bytes;
}

// Key heads of a row, and as many value heads.
__host__ __device__ int KeysOf(const RotateCall& call) {
  return call.stores ? call.kv.layout.kv_heads : 0;
}

// A line of call.lists for each thread of the grid, as far as they reach.
__device__ void FetchLists(const RotateCall& call) {
  constexpr int kLine = 128;
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.y) * gridDim.x + blockIdx.x;
  const std::int64_t at = (block * blockDim.x + threadIdx.x) * kLine;
  if (at < call.lists_bytes) asm volatile("prefetch.global.L2 [%0];\n" ::"l"(call.lists + at));
}

// By one lane.
__device__ void FlagToken(const RotateCall& call, std::byte* block, int token, bool unruly) {
  reinterpret_cast<std::uint8_t*>(block + call.kv.layout.flag_offset)[token] = unruly ? 1 : 0;
  if (unruly) *call.kv.any_flag = 1;
}

// --- Heads of 64 or 128 values in 16 bits, rotated whole, with at most a norm for each head
// --------- A head stays in the registers of its warp, lane l holding the partners of lane l ± 16.

template <int PerLane>
struct LaneValues {
  float x[PerLane];  // consecutive values of the head from PerLane * lane on
};
template <int PerLane>
__device__ LaneValues<PerLane> LoadLane(const float* source) {
  const float* at = source + PerLane * (threadIdx.x % 32);
  if constexpr (PerLane == 4) {
    const float4 four = *reinterpret_cast<const float4*>(at);
    return {{four.x, four.y, four.z, four.w}};
  } else {
    const float2 two = *reinterpret_cast<const float2*>(at);
    return {{two.x, two.y}};
  }
}

template <int PerLane>
__device__ void StoreRotated(float* head, const LaneValues<PerLane>& values) {
  const int lane = threadIdx.x % 32;
  if constexpr (PerLane == 4) {
    reinterpret_cast<float4*>(head)[lane] =
        make_float4(values.x[0], values.x[1], values.x[2], values.x[3]);
  } else {
    reinterpret_cast<float2*>(head)[lane] = make_float2(values.x[0], values.x[1]);
  }
}

template <int Pairs>
__device__ void StorePacked(std::byte* target, const std::uint32_t (&packed)[Pairs]) {
  if constexpr (Pairs == 2) {
    *reinterpret_cast<uint2*>(target) = make_uint2(packed[0], packed[1]);
  } else {
    *reinterpret_cast<std::uint32_t*>(target) = packed[0];
  }
}

template <typename Element, int PerLane>
__device__ void StoreScaledLane(const RotateCall& call, int row, int query,
                                const LaneValues<PerLane>& values) {
  std::uint32_t packed[PerLane / 2];
#pragma unroll
  for (int i = 0; i < PerLane; i += 2) {
    packed[i / 2] = PackPair(__fmul_rn(values.x[i], call.query_scale),
                             __fmul_rn(values.x[i + 1], call.query_scale), Element{});
  }
  const std::int64_t head = static_cast<std::int64_t>(row) * call.heads + query;
  const int lane = threadIdx.x % 32;
  StorePacked(static_cast<std::byte*>(call.scaled_query) + (head * 32 + lane) * PerLane * 2,
              packed);
}

template <typename Element, int PerLane>
__device__ void StoreLane(const RotateCall& call, std::int32_t slot, int kv_head, bool is_value,
                          const LaneValues<PerLane>& values) {
  const KvLayout& layout = call.kv.layout;
  const int lane = threadIdx.x % 32, token = slot % kPageTokens;
  std::byte* block = BlockOfSlot(call, slot, kv_head);
  std::uint32_t packed[PerLane / 2];
  bool unruly = false;
#pragma unroll
  for (int i = 0; i < PerLane; i += 2) {
    packed[i / 2] = PackPair(values.x[i], values.x[i + 1], Element{});
    const float2 rounded = UnpackPair(packed[i / 2], Element{});
    unruly = unruly || Unruly(values.x[i]) || Unruly(values.x[i + 1]) || isinf(rounded.x) ||
             isinf(rounded.y);
  }
  StorePacked(block + (is_value ? layout.value_offset : 0) +
                  TileOffset(token, PerLane * lane, 32 * PerLane) * 2,
              packed);
  if (is_value) {
    unruly = __any_sync(0xffffffffu, unruly);
    if (lane == 0) FlagToken(call, block, token, unruly);
  }
}

template <typename Element, int PerLane>
__global__ void RotateLanesKernel(const __grid_constant__ RotateCall call) {
  LetNextKernelStart();
  FetchLists(call);
  constexpr int kDim = 32 * PerLane;
  const int row = blockIdx.x, lane = threadIdx.x % 32;
  const int queries = call.heads, keys = KeysOf(call);
  const int h = blockIdx.y * kRotatingWarps + threadIdx.x / 32;
  const bool present = h < queries + 2 * keys;
  const bool is_query = h < queries, is_value = h >= queries + keys;
  LaneValues<PerLane> weight = {};
  std::int32_t slot = 0;
  if (present && !is_query) slot = call.slots[row];
  if (!is_value && call.query_norm != nullptr) {
    weight = LoadLane<PerLane>(is_query ? call.query_norm : call.key_norm);
  }
  WaitForEarlierKernels();
  if (!present) return;
  float* source = call.qkv + row * call.stride + h * kDim;
  LaneValues<PerLane> head = LoadLane<PerLane>(source);
  if (!is_value) {
    const std::int64_t angles = static_cast<std::int64_t>(row) * (kDim / 2);
    const LaneValues<PerLane> cosine =
        LoadLane<PerLane>(call.cosine + angles - (lane < 16 ? 0 : kDim / 2));
    const LaneValues<PerLane> sine =
        LoadLane<PerLane>(call.sine + angles - (lane < 16 ? 0 : kDim / 2));
    if (call.query_norm != nullptr) {
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < PerLane; ++i) sum = fmaf(head.x[i], head.x[i], sum);
      const float scale = 1.0f / sqrtf(WarpSum(sum) / static_cast<float>(kDim) + call.eps);
#pragma unroll
      for (int i = 0; i < PerLane; ++i) {
        head.x[i] = __fmul_rn(__fmul_rn(head.x[i], scale), weight.x[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < PerLane; ++i) {
      const float other = __shfl_xor_sync(0xffffffffu, head.x[i], 16);
      const float along = __fmul_rn(head.x[i], cosine.x[i]);
      const float across = __fmul_rn(other, sine.x[i]);
      head.x[i] = lane < 16 ? __fsub_rn(along, across) : __fadd_rn(along, across);
    }
    if (is_query && call.query_factor != nullptr) {
      const float factor = call.query_factor[row];
#pragma unroll
      for (int i = 0; i < PerLane; ++i) head.x[i] = __fmul_rn(head.x[i], factor);
    }
    if (call.scaled_query == nullptr) StoreRotated(source, head);
  }
  if (is_query && call.scaled_query != nullptr) StoreScaledLane<Element>(call, row, h, head);
  if (!is_query) StoreLane<Element>(call, slot, (h - queries) % keys, is_value, head);
}

// --- Any head: through shared memory ------------------------------------------------------------

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
// none reads values that another block has already rotated.
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
  const int queries = call.heads, keys = KeysOf(call);
  float whole_query = 0.0f, whole_key = 0.0f;
  if (call.query_norm != nullptr && call.whole_norm) {
    whole_query = InverseRms(qkv, queries * dim, call.eps);
    if (keys > 0) whole_key = InverseRms(qkv + queries * dim, keys * dim, call.eps);
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
    } else if (call.value_norm != nullptr) {
      const float scale = InverseRms(head, dim, call.eps);
      for (int d = lane; d < dim; d += 32) {
        head[d] = __fmul_rn(__fmul_rn(head[d], scale), call.value_norm[d]);
      }
      __syncwarp();
    }
    if (call.type == KvType::kQ8) HadamardShared(HeadHadamardWidth(dim), dim, head);
    const bool changed = !is_value || call.value_norm != nullptr;
    if (changed && call.scaled_query == nullptr) {
      for (int d = lane; d < dim; d += 32) values[d] = head[d];
    }
    if (is_query && call.scaled_query != nullptr) StoreScaledQuery(call, row, h, head);
    if (!is_query) {
      StoreHead(call, call.slots[row], (h - queries) % keys, is_value, head);
    }
    __syncwarp();
  }
}

// A block takes a row; each of its warps sums it, as there.
__global__ void WholeNormKernel(WholeNorm norm, float* x) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  float* row = x + blockIdx.x * norm.stride;
  const float scale = InverseRms(row, static_cast<int>(norm.values), norm.eps);
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < norm.values; i += blockDim.x) {
    row[i] = __fmul_rn(__fmul_rn(row[i], scale), norm.weight[i]);
  }
}

// --- The table of angles ------------------------------------------------------------------------
constexpr int kTableThreads = 256;

__global__ void RopeTableKernel(RopeAngles angles, float* cosine, float* sine) {
  const int i = static_cast<int>(blockIdx.x) * kTableThreads + static_cast<int>(threadIdx.x);
  if (i >= angles.rows * angles.pairs) return;
  const float position = static_cast<float>(angles.positions[i / angles.pairs]);
  // The angle is a float32 product, as in the models' own code; its sine is taken in double.
  const float angle = __fmul_rn(position, angles.inverse_frequency[i % angles.pairs]);
  double s = 0.0, c = 0.0;
  sincos(static_cast<double>(angle), &s, &c);
  cosine[i] = static_cast<float>(c * angles.scale);
  sine[i] = static_cast<float>(s * angles.scale);
}

}  // namespace

void RotateAndStoreRows(cudaStream_t stream, const RotateCall& call) {
  if (call.rows == 0) return;
  const KvLayout& layout = call.kv.layout;
  const int heads = call.heads + 2 * KeysOf(call);
  const auto rows = static_cast<unsigned>(call.rows);
  const auto across =
      static_cast<unsigned>(call.whole_norm ? 1 : (heads + kRotatingWarps - 1) / kRotatingWarps);
  const bool sixteen_bits = call.type == KvType::kF16 || call.type == KvType::kBF16;
  const bool whole_head = 2 * call.pairs == layout.head_dim && !call.whole_norm && sixteen_bits &&
                          call.value_norm == nullptr;
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

void NormWholeRows(cudaStream_t stream, const WholeNorm& norm, float* x) {
  if (norm.rows == 0) return;
  LaunchEarly(stream, LaunchShape{dim3(static_cast<unsigned>(norm.rows)), kRotatingWarps * 32},
              "norm over all heads", WholeNormKernel, norm, x);
}

void FillRopeTable(cudaStream_t stream, const RopeAngles& angles, float* cosine, float* sine) {
  const int count = angles.rows * angles.pairs;
  if (count == 0) return;
  RopeTableKernel<<<(count + kTableThreads - 1) / kTableThreads, kTableThreads, 0, stream>>>(
      angles, cosine, sine);
  CheckLaunch("rope table");
}

}  // namespace banyan::cuda
