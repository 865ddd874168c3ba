// Rows copied (embedding, gathering, conversion), added, scaled, and put through gates and
// activations: every value by itself. Norms are in norm.cu.
#include "kernels/cuda/rows/row_kernels.h"

#include <algorithm>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/rows/row_values.cuh"
#include "kernels/cuda/rows/swiglu.cuh"

namespace banyan::cuda {
namespace {

constexpr int kThreads = 256;

// Grid for `each` columns a thread: x over columns, y over rows in strides of the grid.
LaunchShape ElementGrid(const RowLayout& range, int each) {
  const std::int64_t a_block = std::int64_t{kThreads} * each;
  const auto across = static_cast<unsigned>((range.columns + a_block - 1) / a_block);
  const auto down = static_cast<unsigned>(range.rows < 65535 ? range.rows : 65535);
  return {dim3(across, down), kThreads};
}

// out[r] = x[index[r]], or x[r] without an index.
template <int kEach, typename From, typename To>
__global__ void CopyRowsKernel(const std::int32_t* index, const From* x, RowLayout range, To* out) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kEach;
  if (c >= range.columns) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    const std::int64_t from = index == nullptr ? r : index[r];
    Store<kEach>(out + r * range.stride + c, Load<kEach>(x + from * range.stride + c));
  }
}

// out[r] = row tokens[r] of the table.
template <int kEach, typename From>
__global__ void EmbedRowsKernel(const std::int32_t* tokens, TableRows<From> table, RowLayout range,
                                float* out) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kEach;
  if (c >= range.columns) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    const std::int64_t at = tokens[r] - table.first;
    if (at < 0 || at >= table.count) continue;
    Store<kEach>(out + r * range.stride + c, Load<kEach>(table.rows + at * range.stride + c));
  }
}

template <typename From>
void CopyEmbeddings(cudaStream_t stream, const std::int32_t* tokens, TableRows<From> table,
                    RowLayout range, float* out) {
  if (range.empty()) return;
  const bool whole = range.columns % 8 == 0;
  LaunchEarly(stream, ElementGrid(range, whole ? 8 : 1), "embedding",
              whole ? EmbedRowsKernel<8, From> : EmbedRowsKernel<1, From>, tokens, table, range,
              out);
}

template <typename From, typename To>
void CopyRows(cudaStream_t stream, const std::int32_t* index, const From* x, RowLayout range,
              To* out) {
  if (range.empty()) return;
  if (range.columns % 8 == 0) {
    LaunchEarly(stream, ElementGrid(range, 8), "copy of rows", CopyRowsKernel<8, From, To>, index,
                x, range, out);
  } else {
    LaunchEarly(stream, ElementGrid(range, 1), "copy of rows", CopyRowsKernel<1, From, To>, index,
                x, range, out);
  }
}

constexpr size_t kPiecesTogether = 24;

struct ColumnCopies {
  ColumnBytes pieces[kPiecesTogether];
  std::int64_t rows = 0;
  std::byte* out = nullptr;
  std::int64_t out_stride = 0;
};

// A row of the grid for each piece; a thread copies a unit at a time.
template <typename Unit>
__global__ void CopyColumnsKernel(const __grid_constant__ ColumnCopies call) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(Unit));
  const ColumnBytes& piece = call.pieces[blockIdx.y];
  const std::int64_t across = piece.count / kBytes, count = across * call.rows;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    const std::int64_t row = i / across, at = i % across * kBytes;
    *reinterpret_cast<Unit*>(call.out + row * call.out_stride + piece.to + at) =
        *reinterpret_cast<const Unit*>(piece.from + row * piece.stride + at);
  }
}

template <typename Unit>
void LaunchColumns(cudaStream_t stream, const ColumnCopies& call, size_t pieces,
                   std::int64_t most_bytes) {
  constexpr std::int64_t kMostBlocks = 512;  // of a piece
  const std::int64_t units = most_bytes / static_cast<std::int64_t>(sizeof(Unit)) * call.rows;
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::int64_t>((units + kThreads - 1) / kThreads, 1, kMostBlocks));
  // Not early: kernels of other streams come before it, which its own wait would not wait for.
  CopyColumnsKernel<Unit>
      <<<dim3(blocks, static_cast<unsigned>(pieces)), kThreads, 0, stream>>>(call);
  CheckLaunch("copy of shards' columns");
}

// x[r] += delta[r] (+ bias), or x[r] += bias.
template <int kEach>
__global__ void AddKernel(const float* delta, const float* bias, RowLayout range, float* x) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kEach;
  if (c >= range.columns) return;
  Values<kEach> added = {};
  if (bias != nullptr) added = Load<kEach>(bias + c);
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    Values<kEach> value = Load<kEach>(x + r * range.stride + c);
    Values<kEach> sum = added;
    if (delta != nullptr) {
      sum = Load<kEach>(delta + r * range.stride + c);
      if (bias != nullptr) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) sum.v[i] = __fadd_rn(sum.v[i], added.v[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) value.v[i] = __fadd_rn(value.v[i], sum.v[i]);
    Store<kEach>(x + r * range.stride + c, value);
  }
}

struct SiluGate {
  static __device__ float Of(float gate, float up, const float* /*source*/) {
    return SwiGlu(gate, up);
  }
  // The hardware's exponential where both sides are bf16: see swiglu.cuh.
  static __device__ float Of(float gate, float up, const __nv_bfloat16* /*source*/) {
    return SwiGluOfBf16(gate, up);
  }
};
struct GeluGate {
  static __device__ float Of(float gate, float up, const void* /*source*/) {
    return GeGlu(gate, up);
  }
};

template <typename GateFunction, int kEach, typename From, typename To>
__global__ void GluKernel(const From* x, std::int64_t x_stride, RowLayout range, To* out) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kEach;
  if (c >= range.columns) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    Values<kEach> gate = Load<kEach>(x + r * x_stride + c);
    const Values<kEach> up = Load<kEach>(x + r * x_stride + range.columns + c);
#pragma unroll
    for (int i = 0; i < kEach; ++i) gate.v[i] = GateFunction::Of(gate.v[i], up.v[i], x);
    Store<kEach>(out + r * range.stride + c, gate);
  }
}

template <typename GateFunction, typename From, typename To>
void LaunchGlu(cudaStream_t stream, const From* x, std::int64_t x_stride, RowLayout range,
               To* out) {
  if (range.empty()) return;
  if (range.columns % 8 == 0) {
    LaunchEarly(stream, ElementGrid(range, 8), "glu", GluKernel<GateFunction, 8, From, To>, x,
                x_stride, range, out);
  } else {
    LaunchEarly(stream, ElementGrid(range, 1), "glu", GluKernel<GateFunction, 1, From, To>, x,
                x_stride, range, out);
  }
}

template <typename GateFunction>
void LaunchGlu(cudaStream_t stream, const float* x, std::int64_t x_stride, RowLayout range,
               RowOutput out) {
  if (out.bf16 != nullptr) {
    LaunchGlu<GateFunction>(stream, x, x_stride, range, out.bf16);
  } else {
    LaunchGlu<GateFunction>(stream, x, x_stride, range, out.float32);
  }
}

template <typename From, typename To>
__global__ void GateColumnsKernel(Gate gate, const float* gates, RowLayout range,
                                  const From* values, std::int64_t values_stride, To* out) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= range.columns) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    const Values<1> value = Load<1>(values + r * values_stride + c);
    const Values<1> gated = {Gated(gate, gates[r * range.stride + c], value.v[0])};
    Store<1>(out + r * range.stride + c, gated);
  }
}

__global__ void GateWholeRowsKernel(Gate gate, const float* gates, std::int64_t gates_stride,
                                    RowLayout range, float* x) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= range.columns) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    float& value = x[r * range.stride + c];
    value = Gated(gate, gates[r * gates_stride], value);
  }
}

struct Gelu {
  __device__ float operator()(float x) const { return x * 0.5f * erfcf(-x * 0.70710678f); }
};
struct Tanh {
  __device__ float operator()(float x) const { return tanhf(x); }
};
struct Times {
  float factor;
  __device__ float operator()(float x) const { return __fmul_rn(x, factor); }
};

template <typename Function>
__global__ void EveryValueKernel(RowLayout range, Function f, float* x) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= range.columns) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    float& value = x[r * range.stride + c];
    value = f(value);
  }
}

template <typename Function>
void LaunchForEveryValue(cudaStream_t stream, const RowLayout& range, Function f, float* x) {
  if (range.empty()) return;
  LaunchEarly(stream, ElementGrid(range, 1), "activation", EveryValueKernel<Function>, range, f, x);
}

}  // namespace

void CopyColumnBytes(cudaStream_t stream, std::span<const ColumnBytes> pieces, std::int64_t rows,
                     std::byte* out, std::int64_t out_stride) {
  while (!pieces.empty()) {
    const auto some = pieces.first(std::min(pieces.size(), kPiecesTogether));
    pieces = pieces.subspan(some.size());
    ColumnCopies call{{}, rows, out, out_stride};
    std::int64_t most = 0;
    auto ends = reinterpret_cast<std::uintptr_t>(out) | static_cast<std::uintptr_t>(out_stride);
    for (size_t i = 0; i < some.size(); ++i) {
      const ColumnBytes& piece = call.pieces[i] = some[i];
      most = std::max(most, piece.count);
      ends |= reinterpret_cast<std::uintptr_t>(piece.from) |
              static_cast<std::uintptr_t>(piece.stride | piece.to | piece.count);
    }
    if (most * rows == 0) continue;
    if (ends % 16 == 0) {
      LaunchColumns<uint4>(stream, call, some.size(), most);
    } else if (ends % 4 == 0) {
      LaunchColumns<std::uint32_t>(stream, call, some.size(), most);
    } else {
      LaunchColumns<std::uint16_t>(stream, call, some.size(), most);
    }
  }
}

void RowsToFloat32(cudaStream_t stream, const __nv_bfloat16* x, RowLayout range, float* out) {
  CopyRows(stream, nullptr, x, range, out);
}
void RowsToBf16(cudaStream_t stream, const float* x, RowLayout range, __nv_bfloat16* out) {
  CopyRows(stream, nullptr, x, range, out);
}
void EmbedRows(cudaStream_t stream, const std::int32_t* tokens, TableRows<float> table,
               RowLayout range, float* out) {
  CopyEmbeddings(stream, tokens, table, range, out);
}
void EmbedRows(cudaStream_t stream, const std::int32_t* tokens, TableRows<__nv_bfloat16> table,
               RowLayout range, float* out) {
  CopyEmbeddings(stream, tokens, table, range, out);
}
void GatherRows(cudaStream_t stream, const std::int32_t* index, const float* x, RowLayout range,
                float* out) {
  CopyRows(stream, index, x, range, out);
}
void GatherRows(cudaStream_t stream, const std::int32_t* index, const __nv_bfloat16* x,
                RowLayout range, __nv_bfloat16* out) {
  CopyRows(stream, index, x, range, out);
}

void AddRows(cudaStream_t stream, const float* delta, const float* bias, RowLayout range,
             float* x) {
  if (range.empty()) return;
  const bool whole = range.columns % 4 == 0;
  LaunchEarly(stream, ElementGrid(range, whole ? 4 : 1), "add", whole ? AddKernel<4> : AddKernel<1>,
              delta, bias, range, x);
}

void SwiGluRows(cudaStream_t stream, const float* x, std::int64_t x_stride, RowLayout range,
                RowOutput out) {
  LaunchGlu<SiluGate>(stream, x, x_stride, range, out);
}

void SwiGluRows(cudaStream_t stream, const __nv_bfloat16* x, std::int64_t x_stride, RowLayout range,
                __nv_bfloat16* out) {
  LaunchGlu<SiluGate>(stream, x, x_stride, range, out);
}

void GeGluRows(cudaStream_t stream, const float* x, std::int64_t x_stride, RowLayout range,
               RowOutput out) {
  LaunchGlu<GeluGate>(stream, x, x_stride, range, out);
}

void GeGluRows(cudaStream_t stream, const __nv_bfloat16* x, std::int64_t x_stride, RowLayout range,
               __nv_bfloat16* out) {
  LaunchGlu<GeluGate>(stream, x, x_stride, range, out);
}

void GateColumnsOfRows(cudaStream_t stream, Gate gate, const float* gates, RowLayout range,
                       const float* values, std::int64_t values_stride, RowOutput out) {
  if (range.empty()) return;
  if (out.bf16 != nullptr) {
    LaunchEarly(stream, ElementGrid(range, 1), "gates", GateColumnsKernel<float, __nv_bfloat16>,
                gate, gates, range, values, values_stride, out.bf16);
  } else {
    LaunchEarly(stream, ElementGrid(range, 1), "gates", GateColumnsKernel<float, float>, gate,
                gates, range, values, values_stride, out.float32);
  }
}

void GateColumnsOfRows(cudaStream_t stream, Gate gate, const float* gates, RowLayout range,
                       const __nv_bfloat16* values, std::int64_t values_stride,
                       __nv_bfloat16* out) {
  if (range.empty()) return;
  LaunchEarly(stream, ElementGrid(range, 1), "gates",
              GateColumnsKernel<__nv_bfloat16, __nv_bfloat16>, gate, gates, range, values,
              values_stride, out);
}

void GateWholeRows(cudaStream_t stream, Gate gate, const float* gates, std::int64_t gates_stride,
                   RowLayout range, float* x) {
  if (range.empty()) return;
  LaunchEarly(stream, ElementGrid(range, 1), "gates of rows", GateWholeRowsKernel, gate, gates,
              gates_stride, range, x);
}

void GeluRows(cudaStream_t stream, RowLayout range, float* x) {
  LaunchForEveryValue(stream, range, Gelu(), x);
}

void TanhRows(cudaStream_t stream, RowLayout range, float* x) {
  LaunchForEveryValue(stream, range, Tanh(), x);
}

void ScaleRows(cudaStream_t stream, RowLayout range, float factor, float* x) {
  LaunchForEveryValue(stream, range, Times{factor}, x);
}

}  // namespace banyan::cuda
