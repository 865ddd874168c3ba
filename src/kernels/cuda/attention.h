// Tree attention on the device: one launch over the work list writes partials, one more merges them
// in canonical order (plan/attention_plan.h).
//
// A work unit is kUnitRows "packed rows" of an item for one KV head: packed row i is query head
// i % ratio of the item's row i / ratio, where ratio = heads per KV head, so that few rows with
// many heads still fill the matrix instruction.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/kv_pages.h"
#include "kernels/cuda/row_kernels.h"
#include "kernels/kernels.h"

namespace banyan::cuda {

inline constexpr int kUnitRows = 64;

// Elements from token to token in a page. 16-bit and 8-bit heads are padded to a size that the
// matrix kernels are compiled for; float32 heads are not.
int PaddedHeadDim(int head_dim, KvType type);

// With copies of its item and span, so that a block has all it needs after one load.
struct WorkUnit {
  WorkItem item;
  KvSpan span;
  std::int32_t first_packed_row = 0;
};

// Partials: weighted values relative to 2^max, and the sum of their weights; sum 0 = empty.
struct PartialArrays {
  float* value = nullptr;  // [partials, heads, head_dim]
  float* max = nullptr;    // [partials, heads], in units of log2
  float* sum = nullptr;    // [partials, heads]
};

struct AttentionCall {
  // The plan, in device memory.
  const WorkUnit* units = nullptr;
  int unit_count = 0;
  const std::int32_t* pages = nullptr;
  const std::int32_t* positions = nullptr;    // [rows]
  const std::int32_t* merge_begin = nullptr;  // [rows + 1]
  const MergeEntry* merges = nullptr;
  int rows = 0;

  AttentionShape shape;
  const float* query = nullptr;  // row r, head h at query + r * query_stride + h * head_dim
  std::int64_t query_stride = 0;
  KvView kv;
  PartialArrays partials;
  RowOutput out;  // row r, head h at out + r * out_stride + h * head_dim
  std::int64_t out_stride = 0;
};

void AttendUnits(cudaStream_t stream, KvType type, const AttentionCall& call);
void MergePartials(cudaStream_t stream, const AttentionCall& call);

// One per kind of KV, each in its own file so that they compile side by side.
void AttendF32(cudaStream_t stream, const AttentionCall& call);
void AttendF16(cudaStream_t stream, const AttentionCall& call);
void AttendBF16(cudaStream_t stream, const AttentionCall& call);
void AttendQ8(cudaStream_t stream, const AttentionCall& call);

}  // namespace banyan::cuda
