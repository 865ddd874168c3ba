// Heads of 64 or 128 values in 16 bits that turn whole, with at most a norm for each head: a head
// stays in the registers of its warp, lane l holding the partners of lane l ± 16.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/pages/kv_tiles.cuh"
#include "kernels/cuda/rows/rotate_common.cuh"

namespace banyan::cuda {

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
__device__ void StoreTurned(float* head, const LaneValues<PerLane>& values) {
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
  const int queries = call.heads, keys = call.kv.layout.kv_heads;
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
      const float turned = __fmul_rn(head.x[i], cosine.x[i]);
      const float across = __fmul_rn(other, sine.x[i]);
      head.x[i] = lane < 16 ? __fsub_rn(turned, across) : __fadd_rn(turned, across);
    }
    if (is_query && call.query_factor != nullptr) {
      const float factor = call.query_factor[row];
#pragma unroll
      for (int i = 0; i < PerLane; ++i) head.x[i] = __fmul_rn(head.x[i], factor);
    }
    if (call.scaled_query == nullptr) StoreTurned(source, head);
  }
  if (is_query && call.scaled_query != nullptr) StoreScaledLane<Element>(call, row, h, head);
  if (!is_query) StoreLane<Element>(call, slot, (h - queries) % keys, is_value, head);
}

}  // namespace banyan::cuda
