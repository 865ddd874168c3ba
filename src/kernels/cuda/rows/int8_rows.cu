// bf16 rows to int8 codes: a block takes a row, 8 values a thread at a time. They stay in
// registers, rotated (kernels/hadamard.h), until the row's largest is known. Rows begin at
// multiples of 16 bytes and are padded to 16 values, whose bits do not count: codes there are zero.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/cuda/rows/row_values.cuh"
#include "kernels/cuda/rows/swiglu.cuh"

namespace banyan::cuda {

namespace {

constexpr int kEight = 8;
// Many rows: blocks beside each other on a multiprocessor, and threads with few values, so that
// many have their loads under way. Few rows: all threads that a row can use.
constexpr int kCodeThreads = 256, kLongThreads = 512, kWideThreads = 1024;
constexpr int kMostEights = 4;  // of a thread: rows of up to 16384 values in blocks of kLongThreads

// The values of a row from c on; zeros beyond its end.
__device__ uint4 LoadEight(const __nv_bfloat16* row, int c, int columns) {
  if (c + kEight <= columns) return *reinterpret_cast<const uint4*>(row + c);
  std::uint32_t pairs[4] = {};
#pragma unroll
  for (int i = 0; i < kEight; ++i) {
    const std::uint32_t bits = c + i < columns ? __bfloat16_as_ushort(row[c + i]) : 0u;
    pairs[i / 2] |= bits << (16 * (i % 2));
  }
  return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

// Gives the eight values from column c on, as bf16.
struct PlainSource {
  const __nv_bfloat16* x;
  std::int64_t stride;

  __device__ uint4 Eight(std::int64_t row, int c, int columns) const {
    return LoadEight(x + row * stride, c, columns);
  }
};
struct SwiGluSource {
  const __nv_bfloat16* x;
  std::int64_t stride;
  __nv_bfloat16* out;
  std::int64_t out_stride;

  // REQUIRES: columns % 8 == 0.
  __device__ uint4 Eight(std::int64_t row, int c, int columns) const {
    uint4 eight = make_uint4(0, 0, 0, 0);
    if (c >= columns) return eight;
    Values<kEight> gate = Load<kEight>(x + row * stride + c);
    const Values<kEight> up = Load<kEight>(x + row * stride + columns + c);
#pragma unroll
    for (int i = 0; i < kEight; ++i) gate.v[i] = SwiGluOfBf16(gate.v[i], up.v[i]);
    Store<kEight>(reinterpret_cast<__nv_bfloat16*>(&eight), gate);
    *reinterpret_cast<uint4*>(out + row * out_stride + c) = eight;
    return eight;
  }
};

struct CodeCall {
  int columns, code_stride, hadamard_width;
  Int8Rows out;
  bool early;
};

// Eight values of a row as they become codes.
struct HadamardEight {
  float v[kEight];

  __device__ void Set(const uint4& bits, const CodeCall& call) {
    FloatsOfEight(bits, v);
    HadamardInWarp(call.hadamard_width, v);
  }
  __device__ std::uint32_t Largest() const {
    std::uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < kEight; ++i) largest = max(largest, MagnitudeBits(v[i]));
    return largest;
  }
  __device__ uint2 Codes(const Int8Scale& scale, const CodeCall& call) const {
    return CodesOfEight(v, call.hadamard_width, scale);
  }
};

template <int kThreads, int kEights, typename Source>
__global__ void __launch_bounds__(kThreads) CodeRowsKernel(Source source, CodeCall call) {
  __shared__ std::uint32_t scratch[kThreads / 32];
  if (call.early) LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t row = blockIdx.x;
  const int first = static_cast<int>(threadIdx.x) * kEight;
  constexpr int kStep = kThreads * kEight;
  uint4 bits[kEights];
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    bits[i] = source.Eight(row, first + i * kStep, call.columns);
  }
  HadamardEight eights[kEights];
  std::uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    eights[i].Set(bits[i], call);
    largest = max(largest, eights[i].Largest());
  }
  const Int8Scale scale = Int8ScaleOfBits(BlockLargest(largest, scratch));
  std::int8_t* codes = call.out.codes + row * call.code_stride;
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    const int c = first + i * kStep;
    const uint2 eight = eights[i].Codes(scale, call);
    if (c < call.code_stride) *reinterpret_cast<uint2*>(codes + c) = eight;
  }
  if (threadIdx.x == 0) call.out.scales[row] = scale.scale;
}

// Longer rows are read twice.
__global__ void __launch_bounds__(kCodeThreads)
    CodeLongRowsKernel(PlainSource source, CodeCall call) {
  __shared__ std::uint32_t scratch[kCodeThreads / 32];
  if (call.early) LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t row = blockIdx.x;
  const int first = static_cast<int>(threadIdx.x) * kEight;
  constexpr int kStep = kCodeThreads * kEight;
  // Whole warps go on as long as one of their lanes has values.
  const int warp_first = first / (32 * kEight) * (32 * kEight);
  HadamardEight eight;
  std::uint32_t largest = 0;
  for (int c = first, w = warp_first; w < call.columns; c += kStep, w += kStep) {
    eight.Set(source.Eight(row, c, call.columns), call);
    largest = max(largest, eight.Largest());
  }
  const Int8Scale scale = Int8ScaleOfBits(BlockLargest(largest, scratch));
  std::int8_t* codes = call.out.codes + row * call.code_stride;
  for (int c = first, w = warp_first; w < call.code_stride; c += kStep, w += kStep) {
    eight.Set(source.Eight(row, c, call.columns), call);
    const uint2 made = eight.Codes(scale, call);
    if (c < call.code_stride) *reinterpret_cast<uint2*>(codes + c) = made;
  }
  if (threadIdx.x == 0) call.out.scales[row] = scale.scale;
}

template <int kThreads, int kEights, typename Source>
void LaunchBlocks(cudaStream_t stream, std::int64_t rows, const Source& source,
                  const CodeCall& call) {
  LaunchEarly(stream, {dim3(static_cast<unsigned>(rows)), kThreads}, "codes of rows",
              CodeRowsKernel<kThreads, kEights, Source>, source, call);
}

template <typename Source>
void LaunchCodes(cudaStream_t stream, std::int64_t rows, const Source& source,
                 const CodeCall& call) {
  const auto fits = [&](int threads, int eights) {
    return call.code_stride <= threads * eights * kEight;
  };
  const bool few = rows <= Multiprocessors();
  if (fits(kCodeThreads, 1)) return LaunchBlocks<kCodeThreads, 1>(stream, rows, source, call);
  if (fits(kCodeThreads, 2)) return LaunchBlocks<kCodeThreads, 2>(stream, rows, source, call);
  if (few && fits(kWideThreads, 1)) {
    return LaunchBlocks<kWideThreads, 1>(stream, rows, source, call);
  }
  if (few && fits(kWideThreads, 2)) {
    return LaunchBlocks<kWideThreads, 2>(stream, rows, source, call);
  }
  if (fits(kLongThreads, 2)) return LaunchBlocks<kLongThreads, 2>(stream, rows, source, call);
  if (fits(kLongThreads, 3)) return LaunchBlocks<kLongThreads, 3>(stream, rows, source, call);
  if (fits(kLongThreads, kMostEights)) {
    return LaunchBlocks<kLongThreads, kMostEights>(stream, rows, source, call);
  }
  if constexpr (std::is_same_v<Source, PlainSource>) {
    LaunchEarly(stream, {dim3(static_cast<unsigned>(rows)), kCodeThreads}, "codes of long rows",
                CodeLongRowsKernel, source, call);
  } else {
    Check(cudaErrorNotSupported, "codes of long rows with SwiGLU");
  }
}

CodeCall CallFor(const RowLayout& range, bool early, Int8Rows out) {
  return {static_cast<int>(range.columns), static_cast<int>(CodeStride(range.columns)),
          HadamardWidth(range.columns), out, early};
}

}  // namespace

void QuantizeRows(cudaStream_t stream, const __nv_bfloat16* x, RowLayout range, CodeReader reader,
                  Int8Rows out) {
  if (range.empty()) return;
  LaunchCodes(stream, range.rows, PlainSource{x, range.stride},
              CallFor(range, reader == CodeReader::kWaits, out));
}

void SwiGluAndQuantizeRows(cudaStream_t stream, const __nv_bfloat16* x, std::int64_t x_stride,
                           RowLayout range, __nv_bfloat16* out, Int8Rows codes) {
  if (range.empty()) return;
  constexpr std::int64_t kMostColumns = std::int64_t{kMostEights} * kLongThreads * kEight;
  if (range.columns % kEight != 0 || x_stride % kEight != 0 || range.columns > kMostColumns) {
    SwiGluRows(stream, x, x_stride, range, out);
    return QuantizeRows(stream, out, range, CodeReader::kWaits, codes);
  }
  LaunchCodes(stream, range.rows, SwiGluSource{x, x_stride, out, range.stride},
              CallFor(range, true, codes));
}

}  // namespace banyan::cuda
