// Low-rank products that stay apart from their matrix (kernels/low_rank.h): tables on the device,
// and the launches that add them to rows. Every row has its variant in device memory, so that a
// recorded step finds those of a later one. All sums are in float32, in an order that depends on
// the row's own variant alone:
//
//   inner[k]  32 lanes, lane l over the columns l, l + 32, …, then the tree of WarpSum; scaled
//   out[n]    one chain over the ranks of a part, added to out; part after part
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/kernels.h"
#include "kernels/low_rank.h"

namespace banyan::cuda {

struct DeviceLowRankPart {
  const float* a = nullptr;  // [rank, columns]
  const float* b = nullptr;  // [rank, rows]: transposed
  float scale = 0.0f;
  std::int32_t rank = 0;
  std::int32_t first_rank = 0;  // among all ranks of its variant
  std::int32_t first_row = 0, rows = 0;
};

// A table as kernels see it.
struct LowRankView {
  const DeviceLowRankPart* parts = nullptr;
  const std::int32_t* begin =
      nullptr;  // [variants + 2] variant v has parts [begin[v], begin[v + 1])
};

class DeviceLowRank : public LowRankTable {
 public:
  LowRankView view() const { return {parts.As<DeviceLowRankPart>(), begin.As<std::int32_t>()}; }
  DeviceMemory factors, parts, begin;
};

std::shared_ptr<const DeviceLowRank> LoadLowRank(const std::shared_ptr<const Device>& device,
                                                 const LowRankSource& source);

// Which rows get what.
struct LowRankRows {
  LowRankView table;
  const std::int32_t* variants = nullptr;  // [rows]
  std::int64_t ranks = 0;                  // of the largest variant
};

// inner[r][k] for all ranks of the row's variant; `range` is of x, inner has rows of inner_stride.
void LowRankInner(cudaStream_t stream, const LowRankRows& rows, const float* x, RowLayout range,
                  float* inner, std::int64_t inner_stride);
void LowRankInner(cudaStream_t stream, const LowRankRows& rows, const __nv_bfloat16* x,
                  RowLayout range, float* inner, std::int64_t inner_stride);
// out[r] += B inner[r]; `range` is of out.
void LowRankOuter(cudaStream_t stream, const LowRankRows& rows, const float* inner,
                  std::int64_t inner_stride, RowLayout range, float* out);
// SwiGluRows or GeGluRows (row_kernels.h) for the rows that the table has a part for; others stay.
struct GatedRows {
  const float* x = nullptr;
  std::int64_t stride = 0;  // floats
};
void LowRankGlu(cudaStream_t stream, const LowRankRows& rows, Gate gate, const GatedRows& x,
                RowLayout range, __nv_bfloat16* out);

}  // namespace banyan::cuda
