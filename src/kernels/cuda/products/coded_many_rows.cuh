// Products of codes, many rows: the kernel, for files that make it for one tile size each.
#pragma once

#include "kernels/cuda/products/coded_many_rows_feed.cuh"
#include "kernels/cuda/rows/swiglu.cuh"

namespace banyan::cuda::coded_many {

#ifdef BANYAN_SM90A
#define BANYAN_CODED_CLUSTER __cluster_dims__(kCluster, 1, 1)

template <typename T>
using Sums = std::int32_t[T::kOfGroup * T::kChains][T::kWidth / 8][4];  // chains of a slab together

// Tells both blocks that this warp has read the stage.
template <typename T>
__device__ inline void GiveBack(const Ring<T>& ring, int stage) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane < kCluster) ArriveAt(ring.empty[stage], lane);
}

// Adds the products of the group's first kCount slabs of a tile to the sums.
template <typename T, int kCount>
__device__ void MultiplySlabs(const Ring<T>& ring, int chunks, int group, Place<T>& place,
                              Sums<T>& sums) {
  int before = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    Wait(ring.full[place.stage], place.parity);
    const SwizzledOperand x(ring.X(place.stage) + group * kSlabBytes);
    const SwizzledOperand w(ring.W(place.stage));
    FenceProducts();
#pragma unroll
    for (int k = 0; k < kCodeBoxColumns; k += 32) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        CodedProduct(sums[i * T::kChains + k / 32 % T::kChains],
                     x.At(i * T::kGroups * kSlabBytes + k), w.At(k));
      }
    }
    CommitProducts();
    WaitForProductsBut<1>();
    if (chunk > 0) GiveBack(ring, before);
    before = place.stage;
    place.Advance();
  }
  WaitForProducts();
#pragma unroll
  for (int i = 0; i < kCount * T::kChains; ++i) PinCodes(sums[i]);
  GiveBack(ring, before);
#pragma unroll
  for (int i = 0; i < kCount * T::kChains; ++i) {
    if (i % T::kChains == 0) continue;
#pragma unroll
    for (int n = 0; n < T::kWidth / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) sums[i / T::kChains * T::kChains][n][c] += sums[i][n][c];
    }
  }
}

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

// A slab's sums to memory. Rows of the warp's lanes are lane / 4 and that + 8, from `row` on. Loads
// of some blocks of 8 columns are under way together.
template <typename T>
__device__ void StoreSlab(const Call& call, const std::int32_t (&sums)[T::kWidth / 8][4], int row,
                          int column) {
  constexpr int kTogether = T::kWidth > 128 ? 4 : 8;  // as registers allow beside the sums
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int n0 = column + 2 * (lane % 4), left = call.outputs - n0;
  const float* scales = call.end.w_scales + n0;
  const ProductForm form = call.end.form;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + lane / 4 + 8 * half;
    if (r >= call.rows) continue;
    const float row_scale = call.end.x_scales[r];
    const std::int64_t at = static_cast<std::int64_t>(r) * call.out_stride + n0;
    auto* out = static_cast<float*>(call.end.end.out) + at;
#pragma unroll
    for (int first = 0; first < T::kWidth; first += 8 * kTogether) {
      float2 scale[kTogether] = {}, added[kTogether] = {};
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int c = first + 8 * i;
        if (c >= left) continue;
        scale[i] = PairOf(scales + c);
        if (form == ProductForm::kAdd) added[i] = *reinterpret_cast<const float2*>(out + c);
        if (form == ProductForm::kBias) added[i] = PairOf(call.end.end.bias + n0 + c);
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int c = first + 8 * i;
        if (c >= left) continue;
        float2 value = ScaledPair(&sums[c / 8][2 * half], row_scale, scale[i]);
        if (form == ProductForm::kBf16) {
          *reinterpret_cast<__nv_bfloat162*>(static_cast<__nv_bfloat16*>(call.end.end.out) + at +
                                             c) = __floats2bfloat162_rn(value.x, value.y);
          continue;
        }
        if (form != ProductForm::kFloat32) {
          value = make_float2(__fadd_rn(value.x, added[i].x), __fadd_rn(value.y, added[i].y));
        }
        *reinterpret_cast<float2*>(out + c) = value;
      }
    }
  }
}

// SwiGLU of a slab's sums; the gate's are the first half.
template <typename T>
__device__ void StoreGatedSlab(const Call& call, const std::int32_t (&sums)[T::kWidth / 8][4],
                               int row, int column) {
  constexpr int kBlocks = T::kWidth / 16;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int r0 = row + lane / 4;
  const float row_scales[2] = {r0 < call.rows ? call.end.x_scales[r0] : 0.0f,
                               r0 + 8 < call.rows ? call.end.x_scales[r0 + 8] : 0.0f};
  const auto rounded = [](const float2& value) {
    return __bfloat1622float2(__floats2bfloat162_rn(value.x, value.y));
  };
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
    const int n = column + block * 8 + 2 * (lane % 4);
    if (n >= call.outputs) continue;
    const float* scales = call.end.w_scales + n;
    const float2 for_gate = PairOf(scales), for_up = PairOf(scales + call.outputs);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = r0 + 8 * half;
      if (r >= call.rows) continue;
      const float2 gate = rounded(ScaledPair(&sums[block][2 * half], row_scales[half], for_gate));
      const float2 up =
          rounded(ScaledPair(&sums[kBlocks + block][2 * half], row_scales[half], for_up));
      *reinterpret_cast<__nv_bfloat162*>(static_cast<__nv_bfloat16*>(call.end.end.out) +
                                         static_cast<std::int64_t>(r) * call.out_stride + n) =
          __floats2bfloat162_rn(SwiGluOfBf16(gate.x, up.x), SwiGluOfBf16(gate.y, up.y));
    }
  }
}

// What the sums of the group's slabs will be added to comes to the cache while they are made. The
// memory's latency would show otherwise: a tile's end has few loads under way.
template <typename T, int kCount>
__device__ void FetchTarget(const Call& call, int first_row, int column) {
  constexpr int kLine = 32, kLines = T::kWidth / kLine;  // float32 values of a line, lines of a row
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int row = first_row + i * T::kGroups * kSlabRows;
    for (int line = lane; line < 16 * kLines; line += 32) {
      const int r = row + line / kLines, n = column + line % kLines * kLine;
      if (r >= call.rows || n >= call.outputs) continue;
      const float* at = static_cast<const float*>(call.end.end.out) +
                        static_cast<std::int64_t>(r) * call.out_stride + n;
      asm volatile("prefetch.global.L2 [%0];\n" ::"l"(at));
    }
  }
}

template <typename T, bool kGated, int kCount>
__device__ void MultiplyTile(const Call& call, const Ring<T>& ring, const Tiles<T, kGated>& tiles,
                             int group, Place<T>& place) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  if (!kGated && call.end.form == ProductForm::kAdd) {
    FetchTarget<T, kCount>(call, tiles.row() + group * kSlabRows + warp * 16, tiles.column());
  }
  Sums<T> sums = {};
  MultiplySlabs<T, kCount>(ring, call.inner / kCodeBoxColumns, group, place, sums);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int row = tiles.row() + (group + i * T::kGroups) * kSlabRows + warp * 16;
    if constexpr (kGated) {
      StoreGatedSlab<T>(call, sums[i * T::kChains], row, tiles.column());
    } else {
      StoreSlab<T>(call, sums[i * T::kChains], row, tiles.column());
    }
  }
}

template <typename T, bool kGated>
__device__ void MultiplyAll(const Call& call, const Ring<T>& ring, int group) {
  Place<T> place;
  for (Tiles<T, kGated> tiles(call); tiles.More(); tiles.Next()) {
    const int slabs = (tiles.slabs() - group + T::kGroups - 1) / T::kGroups;
    if (slabs == 1) {
      MultiplyTile<T, kGated, 1>(call, ring, tiles, group, place);
    } else if (slabs < 1) {
      for (int chunk = 0; chunk < call.inner / kCodeBoxColumns; ++chunk, place.Advance()) {
        Wait(ring.full[place.stage], place.parity);
        GiveBack(ring, place.stage);
      }
    } else if constexpr (T::kOfGroup == 2) {
      MultiplyTile<T, kGated, 2>(call, ring, tiles, group, place);
    }
  }
}

#else
#define BANYAN_CODED_CLUSTER  // the compiler knows no clusters for other devices
#endif                        // BANYAN_SM90A

template <typename T, bool kGated>
__global__ void BANYAN_CODED_CLUSTER __launch_bounds__(T::kThreads, 1)
    CodedManyKernel(const __grid_constant__ Call call) {
#ifdef BANYAN_SM90A
  __shared__ std::uint64_t full[T::kStages], empty[T::kStages];
  extern __shared__ unsigned char unaligned[];
  const Ring<T> ring{unaligned + (kAlignment - SharedAddress(unaligned) % kAlignment) % kAlignment,
                     full, empty};
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (threadIdx.x == T::kGroups * 128) {
    FetchMap(call.w);
    FetchMap(call.x);
    for (int stage = 0; stage < T::kStages; ++stage) {
      InitBarrier(full[stage], 1);
      InitBarrier(empty[stage], kCluster * T::kGroups * 4);
    }
    PublishBarriers();
  }
  SyncCluster();
  if (group == T::kGroups) {
    if constexpr (T::kShiftsRegisters) GiveRegisters<40>();
    if (threadIdx.x == T::kGroups * 128) Fill<T, kGated>(call, ring);
    __syncwarp();
  } else {
    if constexpr (T::kShiftsRegisters) TakeRegisters<232>();
    WaitForEarlierKernels();
    MultiplyAll<T, kGated>(call, ring, group);
  }
  LetNextKernelStart();  // of the feeding group at once: all blocks have their places by then
  SyncCluster();         // the other block's copies and arrivals come here
#endif
}

template <typename T, bool kGated>
void LaunchTile(cudaStream_t stream, const CodedOperands& operands) {
  RaiseSharedMemory<CodedManyKernel<T, kGated>>(T::kSharedBytes);
  constexpr int kColumns = kGated ? T::kWidth / 2 : T::kWidth;
  constexpr std::int64_t kCachedBytes = std::int64_t{16} << 20;
  const ProductShape& shape = operands.shape;
  Call call{};
  call.x = MapOfCodes(operands.x, shape.rows, shape.inner, kSlabRows, 1);
  call.w = MapOfCodes(operands.w, shape.outputs, shape.inner, kColumns, 1);
  call.end = EndOf(operands);
  call.rows = static_cast<int>(shape.rows);
  call.outputs = static_cast<int>(kGated ? shape.gated : shape.outputs);
  call.inner = static_cast<int>(shape.inner);
  call.out_stride = static_cast<int>(shape.out_stride);
  call.row_tiles = (call.rows + T::kRows - 1) / T::kRows;
  call.column_clusters = (call.outputs + kCluster * kColumns - 1) / (kCluster * kColumns);
  call.cached_tiles =
      static_cast<int>(std::max<std::int64_t>(1, kCachedBytes / (shape.inner * T::kRows)));
  const int clusters =
      std::min(call.row_tiles * call.column_clusters, Multiprocessors() / kCluster);
  const LaunchShape launch{dim3(static_cast<unsigned>(clusters * kCluster)), T::kThreads,
                           static_cast<size_t>(T::kSharedBytes)};
  LaunchEarly(stream, launch, "product of codes", CodedManyKernel<T, kGated>, call);
}

template <typename T>
void LaunchTile(cudaStream_t stream, const CodedOperands& operands) {
  if (operands.form == ProductForm::kSwiGlu) return LaunchTile<T, true>(stream, operands);
  LaunchTile<T, false>(stream, operands);
}

// Defined in files of their own, which are compiled beside each other.
void MultiplyTiles1(cudaStream_t stream, const CodedOperands& operands);  // {1, 64}
void MultiplyTiles2(cudaStream_t stream, const CodedOperands& operands, int width);
void MultiplyTiles4(cudaStream_t stream, const CodedOperands& operands, int width);

}  // namespace banyan::cuda::coded_many
