// Rows are taken in small groups, and neighbours of one variant read the weights once; each has
// sums of its own.
#include <vector>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/warp.cuh"
#include "kernels/cuda/products/low_rank.h"
#include "kernels/cuda/rows/swiglu.cuh"
#include "tensor/quantization.h"

namespace banyan::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kGroup = 8;  // rows

__device__ float AsFloat(float value) { return value; }
__device__ float AsFloat(__nv_bfloat16 value) { return __bfloat162float(value); }

// Rows [begin, end) of a group that have the variant of the first.
struct Run {
  std::int64_t begin;
  int rows;
  std::int32_t variant;
};
__device__ Run RunFrom(const std::int32_t* variants, std::int64_t begin, std::int64_t end) {
  Run run{begin, 1, variants[begin]};
  while (begin + run.rows < end && variants[begin + run.rows] == run.variant) ++run.rows;
  return run;
}

// A warp has one rank of the row's variant.
template <typename X>
__global__ void InnerKernel(LowRankRows rows, const X* x, RowLayout range, float* inner,
                            std::int64_t inner_stride) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const int lane = threadIdx.x % 32;
  const int rank = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * kGroup; first < range.rows;
       first += static_cast<std::int64_t>(gridDim.y) * kGroup) {
    const std::int64_t end = first + kGroup < range.rows ? first + kGroup : range.rows;
    Run run{first, 0, 0};
    for (std::int64_t row = first; row < end; row += run.rows) {
      run = RunFrom(rows.variants, row, end);
      const float* a = nullptr;
      float scale = 0.0f;
      for (int p = rows.table.begin[run.variant]; p < rows.table.begin[run.variant + 1]; ++p) {
        const DeviceLowRankPart& part = rows.table.parts[p];
        if (rank < part.first_rank || rank >= part.first_rank + part.rank) continue;
        a = part.a + static_cast<std::int64_t>(rank - part.first_rank) * range.columns;
        scale = part.scale;
      }
      if (a == nullptr) continue;  // the whole warp
      const X* input = x + row * range.stride;
      float sums[kGroup] = {};
      for (std::int64_t c = lane; c < range.columns; c += 32) {
        const float weight = a[c];
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
          if (i < run.rows) {
            sums[i] = __fmaf_rn(AsFloat(input[i * range.stride + c]), weight, sums[i]);
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        if (i >= run.rows) continue;
        const float sum = WarpSum(sums[i]);
        if (lane == 0) inner[(row + i) * inner_stride + rank] = __fmul_rn(sum, scale);
      }
    }
  }
}

// A thread has one output.
__global__ void OuterKernel(LowRankRows rows, const float* inner, std::int64_t inner_stride,
                            RowLayout range, float* out) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (n >= range.columns) return;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * kGroup; first < range.rows;
       first += static_cast<std::int64_t>(gridDim.y) * kGroup) {
    const std::int64_t end = first + kGroup < range.rows ? first + kGroup : range.rows;
    Run run{first, 0, 0};
    for (std::int64_t row = first; row < end; row += run.rows) {
      run = RunFrom(rows.variants, row, end);
      for (int p = rows.table.begin[run.variant]; p < rows.table.begin[run.variant + 1]; ++p) {
        const DeviceLowRankPart& part = rows.table.parts[p];
        if (n < part.first_row || n >= part.first_row + part.rows) continue;
        const float* b = part.b + (n - part.first_row);
        const float* input = inner + row * inner_stride + part.first_rank;
        float sums[kGroup] = {};
        for (int k = 0; k < part.rank; ++k) {
          const float weight = b[static_cast<std::int64_t>(k) * part.rows];
#pragma unroll
          for (int i = 0; i < kGroup; ++i) {
            if (i < run.rows) sums[i] = __fmaf_rn(input[i * inner_stride + k], weight, sums[i]);
          }
        }
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
          if (i >= run.rows) continue;
          float& value = out[(row + i) * range.stride + n];
          value = __fadd_rn(value, sums[i]);
        }
      }
    }
  }
}

__global__ void GluKernel(LowRankRows rows, Gate gate, GatedRows x, RowLayout range,
                          __nv_bfloat16* out) {
  LetNextKernelStart();
  WaitForEarlierKernels();
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= range.columns) return;
  for (std::int64_t r = blockIdx.y; r < range.rows; r += gridDim.y) {
    const std::int32_t variant = rows.variants[r];
    if (rows.table.begin[variant] == rows.table.begin[variant + 1]) continue;
    const float* row = x.x + r * x.stride;
    const float first = row[c], up = row[range.columns + c];
    out[r * range.stride + c] =
        __float2bfloat16_rn(gate == Gate::kSilu ? SwiGlu(first, up) : GeGlu(first, up));
  }
}

LaunchShape GridOf(std::int64_t across, std::int64_t down) {
  return {dim3(static_cast<unsigned>(across), static_cast<unsigned>(down < 65535 ? down : 65535)),
          kThreads};
}
std::int64_t Groups(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

template <typename X>
void LaunchInner(cudaStream_t stream, const LowRankRows& rows, const X* x, const RowLayout& range,
                 float* inner, std::int64_t inner_stride) {
  if (range.empty() || rows.ranks == 0) return;
  LaunchEarly(stream, GridOf(Groups(rows.ranks, kWarps), Groups(range.rows, kGroup)),
              "low-rank products", InnerKernel<X>, rows, x, range, inner, inner_stride);
}

}  // namespace

void LowRankInner(cudaStream_t stream, const LowRankRows& rows, const float* x, RowLayout range,
                  float* inner, std::int64_t inner_stride) {
  LaunchInner(stream, rows, x, range, inner, inner_stride);
}
void LowRankInner(cudaStream_t stream, const LowRankRows& rows, const __nv_bfloat16* x,
                  RowLayout range, float* inner, std::int64_t inner_stride) {
  LaunchInner(stream, rows, x, range, inner, inner_stride);
}

void LowRankOuter(cudaStream_t stream, const LowRankRows& rows, const float* inner,
                  std::int64_t inner_stride, RowLayout range, float* out) {
  if (range.empty() || rows.ranks == 0) return;
  LaunchEarly(stream, GridOf(Groups(range.columns, kThreads), Groups(range.rows, kGroup)),
              "low-rank products", OuterKernel, rows, inner, inner_stride, range, out);
}

void LowRankGlu(cudaStream_t stream, const LowRankRows& rows, Gate gate, const GatedRows& x,
                RowLayout range, __nv_bfloat16* out) {
  if (range.empty()) return;
  LaunchEarly(stream, GridOf(Groups(range.columns, kThreads), range.rows), "glu", GluKernel, rows,
              gate, x, range, out);
}

namespace {

std::vector<float> FloatsOf(const HostTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.rows() * tensor.columns()));
  Dequantize(tensor.dtype, tensor.bytes, values);
  return values;
}

template <typename T>
DeviceMemory Sent(const std::shared_ptr<const Device>& device, const std::vector<T>& values) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  DeviceMemory memory(device, bytes, "an adapter's products");
  memory.CopyFromHost(values.data(), bytes);
  return memory;
}

// Where a part's factors begin among all floats.
struct FactorPlace {
  size_t a = 0, b = 0;
};

}  // namespace

std::shared_ptr<const DeviceLowRank> LoadLowRank(const std::shared_ptr<const Device>& device,
                                                 const LowRankSource& source) {
  auto table = std::make_shared<DeviceLowRank>();
  DescribeLowRank(source, *table);
  std::vector<float> factors;
  std::vector<FactorPlace> places;
  std::vector<DeviceLowRankPart> parts;
  std::vector<std::int32_t> begin = {0, 0};
  for (const std::vector<LowRankPart>& variant : source.variants) {
    std::int32_t first_rank = 0;
    for (const LowRankPart& part : variant) {
      const auto rank = static_cast<size_t>(part.a->rows());
      const auto rows = static_cast<size_t>(part.b->rows());
      FactorPlace& place = places.emplace_back();
      place.a = factors.size();
      const std::vector<float> a = FloatsOf(*part.a), b = FloatsOf(*part.b);
      factors.insert(factors.end(), a.begin(), a.end());
      place.b = factors.size();
      for (size_t k = 0; k < rank; ++k) {
        for (size_t n = 0; n < rows; ++n) factors.push_back(b[n * rank + k]);
      }
      DeviceLowRankPart& sent = parts.emplace_back();
      sent.scale = part.scale;
      sent.rank = static_cast<std::int32_t>(rank);
      sent.first_rank = first_rank;
      sent.first_row = static_cast<std::int32_t>(part.first_row);
      sent.rows = static_cast<std::int32_t>(rows);
      first_rank += sent.rank;
    }
    begin.push_back(static_cast<std::int32_t>(parts.size()));
  }
  table->factors = Sent(device, factors);
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].a = table->factors.As<float>() + places[i].a;
    parts[i].b = table->factors.As<float>() + places[i].b;
  }
  table->parts = Sent(device, parts);
  table->begin = Sent(device, begin);
  table->bytes = table->factors.bytes() + table->parts.bytes() + table->begin.bytes();
  return table;
}

}  // namespace banyan::cuda
