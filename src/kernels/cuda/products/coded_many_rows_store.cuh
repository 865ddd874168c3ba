// Products of codes, many rows (coded_kernels.h): the sums that a warpgroup has of a tile, to
// memory.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/products/coded_many_rows_feed.cuh"
#include "kernels/cuda/rows/swiglu.cuh"

namespace banyan::cuda::coded_many {

#ifdef BANYAN_SM90A

template <typename T>
using Sums = std::int32_t[T::kOfGroup * T::kChains][T::kWidth / 8][4];  // chains of a slab together

// Two neighbouring sums of a row, times scales.
__device__ inline float2 ScaledPair(const std::int32_t* sums, float row_scale,
                                    const float2& scales) {
  return make_float2(SumOfCodes(sums[0], row_scale, scales.x),
                     SumOfCodes(sums[1], row_scale, scales.y));
}

// What belongs to two neighbouring outputs; weights' scales are constants.
__device__ inline float2 PairOf(const float* constants) {
  return __ldg(reinterpret_cast<const float2*>(constants));
}

// The sums of a group's slabs to memory, some blocks of 8 columns at a time: all loads for them are
// under way together, before the first is used. Rows of the warp's lanes are lane / 4 and that + 8,
// from `row` on. Nothing here branches: the end of a tile is bound by latency and instructions.
// kAdd stands for kBias too, whose bias is a row for all rows: with a load for each form into the
// same registers, the second one would wait for the first.
template <typename T, int kCount, ProductForm kForm>
__device__ void StoreSlabs(const Call& call, const Sums<T>& sums, int row, int column) {
  constexpr bool kAdds = kForm == ProductForm::kAdd;
  constexpr int kBlocks = 8 / kCount;  // as registers allow beside the sums
  constexpr int kRows = 2 * kCount;    // of a lane
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int r0 = row + lane / 4, n0 = column + 2 * (lane % 4);
  const auto row_of = [](int i) { return i / 2 * T::kSlabStep * kSlabRows + i % 2 * 8; };
  const std::int64_t at = std::int64_t{call.out_stride} * r0 + n0;
  const bool is_bias = call.end.form == ProductForm::kBias;
  const float* added_from =
      is_bias ? call.end.end.bias + n0 : static_cast<const float*>(call.end.end.out) + at;
  const std::int64_t added_stride = is_bias ? 0 : call.out_stride;
  float row_scale[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int r = r0 + row_of(i);
    row_scale[i] = 0.0f;
    if (r < call.rows) row_scale[i] = call.end.x_scales[r];
  }
#pragma unroll
  for (int first = 0; first < T::kWidth / 8; first += kBlocks) {
    float2 scale[kBlocks], added[kBlocks][kAdds ? kRows : 1];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const int c = (first + block) * 8;
      const bool is_column = n0 + c < call.outputs;
      scale[block] = make_float2(0.0f, 0.0f);
      if (is_column) scale[block] = PairOf(call.end.w_scales + n0 + c);
      if constexpr (kAdds) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          const float* from = added_from + added_stride * row_of(i) + c;
          added[block][i] = make_float2(0.0f, 0.0f);
          if (is_column & (r0 + row_of(i) < call.rows)) {
            added[block][i] = *reinterpret_cast<const float2*>(from);
          }
        }
      }
    }
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const int c = (first + block) * 8;
      const bool is_column = n0 + c < call.outputs;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        float2 value = ScaledPair(&sums[i / 2 * T::kChains][first + block][2 * (i % 2)],
                                  row_scale[i], scale[block]);
        if constexpr (kAdds) {
          const float2 more = added[block][i];
          value = make_float2(__fadd_rn(value.x, more.x), __fadd_rn(value.y, more.y));
        }
        const std::int64_t to = at + std::int64_t{call.out_stride} * row_of(i) + c;
        if constexpr (kForm == ProductForm::kBf16) {
          const __nv_bfloat162 rounded = __floats2bfloat162_rn(value.x, value.y);
          auto* out =
              reinterpret_cast<__nv_bfloat162*>(static_cast<__nv_bfloat16*>(call.end.end.out) + to);
          if (is_column & (r0 + row_of(i) < call.rows)) *out = rounded;
        } else {
          auto* out = reinterpret_cast<float2*>(static_cast<float*>(call.end.end.out) + to);
          if (is_column & (r0 + row_of(i) < call.rows)) *out = value;
        }
      }
    }
  }
}

template <typename T, int kCount>
__device__ void StoreSlabs(const Call& call, const Sums<T>& sums, int row, int column) {
  if (call.end.form == ProductForm::kFloat32) {
    StoreSlabs<T, kCount, ProductForm::kFloat32>(call, sums, row, column);
  } else if (call.end.form == ProductForm::kBf16) {
    StoreSlabs<T, kCount, ProductForm::kBf16>(call, sums, row, column);
  } else {
    StoreSlabs<T, kCount, ProductForm::kAdd>(call, sums, row, column);
  }
}

// SwiGLU of a slab's sums; the gate's are the first half.
template <typename T>
__device__ void StoreGatedSlab(const Call& call, const std::int32_t (&sums)[T::kWidth / 8][4],
                               int row, int column) {
  constexpr int kBlocks = T::kWidth / 16, kTogether = 4;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int r0 = row + lane / 4, n0 = column + 2 * (lane % 4);
  const float row_scales[2] = {r0 < call.rows ? call.end.x_scales[r0] : 0.0f,
                               r0 + 8 < call.rows ? call.end.x_scales[r0 + 8] : 0.0f};
  const auto rounded = [](const float2& value) {
    return __bfloat1622float2(__floats2bfloat162_rn(value.x, value.y));
  };
#pragma unroll
  for (int first = 0; first < kBlocks; first += kTogether) {
    float2 for_gate[kTogether], for_up[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int n = n0 + (first + i) * 8;
      for_gate[i] = for_up[i] = make_float2(0.0f, 0.0f);
      if (n < call.outputs) for_gate[i] = PairOf(call.end.w_scales + n);
      if (n < call.outputs) for_up[i] = PairOf(call.end.w_scales + call.outputs + n);
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int block = first + i, n = n0 + block * 8;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = r0 + 8 * half;
        const float2 gate =
            rounded(ScaledPair(&sums[block][2 * half], row_scales[half], for_gate[i]));
        const float2 up =
            rounded(ScaledPair(&sums[kBlocks + block][2 * half], row_scales[half], for_up[i]));
        const __nv_bfloat162 both =
            __floats2bfloat162_rn(SwiGluOfBf16(gate.x, up.x), SwiGluOfBf16(gate.y, up.y));
        auto* out =
            reinterpret_cast<__nv_bfloat162*>(static_cast<__nv_bfloat16*>(call.end.end.out) +
                                              static_cast<std::int64_t>(r) * call.out_stride + n);
        if ((r < call.rows) & (n < call.outputs)) *out = both;
      }
    }
  }
}

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda::coded_many
