// Tree attention on the device: a launch over the work list, or two that overlap, writes partials,
// one more merges them in canonical order (plan/attention_plan.h).
//
// A work unit is some packed rows of an item for one KV head (kernels/units/work_units.h). Three
// kernels take units of their own size; their bits are the same:
//   blocks  64 packed rows, any device, any kind of KV
//   wide    128 packed rows, Hopper: matrix instructions of warpgroups, bulk copies
//   narrow    8 packed rows, Hopper: made for the stream of bytes of the streams' private ends
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/pages/kv_pages.h"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/kernels.h"
#include "kernels/units/work_units.h"
#include "plan/joining.h"

namespace banyan::cuda {

// Scores are in units of log2, so that weights are powers of two.
inline constexpr float kLog2E = 1.44269504f;

// Microseconds of a multiprocessor for wide and narrow units, measured on an H200 with heads of
// 128.
inline constexpr WorkerTimes kUnitTimes = {
    .cut = 2.0f, .item = 5.0f, .page = 0.15f, .memory_page = 0.00195f, .start = 8.0f};
// Of 8-bit codes: scales take time in the softmax, unpacking in narrow units; half of the bytes.
inline constexpr WorkerTimes kInt8UnitTimes = {
    .cut = 2.75f, .item = 5.5f, .page = 0.19f, .memory_page = 0.00102f, .start = 8.0f};

// Merge lists of so many entries on average are short.
inline constexpr int kLongestShortList = 4;

// Lists in device memory. `counts` are there too, so that a recorded launch finds those of its
// step; the host knows which launches are needed at all.
struct UnitLists {
  bool has_wide = false, has_narrow = false;
  const WorkUnit* many_rows = nullptr;  // kBlocks: all units; else the wide ones
  const WorkUnit* few_rows = nullptr;   // the narrow ones
  const UnitCounts* counts = nullptr;
};

// Partials: weighted values relative to 2^max, and the sum of their weights. An empty one has
// maximum -inf, sum and values 0.
struct PartialArrays {
  float* value = nullptr;  // [partials, heads, head_dim]
  float* max = nullptr;    // [partials, heads], in units of log2
  float* sum = nullptr;    // [partials, heads]
};

// The plan's parallel context (plan/attention_plan.h). Wide and narrow units do not know it.
struct ContextOnDevice {
  std::int32_t pages = 0;  // of AttentionCall::pages, the first ones; 0: there is none
  float inverse_temperature = 1.0f;
  float scale = 1.0f;
};

struct AttentionCall {
  // The plan, in device memory.
  UnitLists units;
  UnitForm form = UnitForm::kBlocks;
  std::int32_t* next_unit = nullptr;  // [2] counters of UnitLists, zero between calls
  const std::int32_t* pages = nullptr;
  const std::int32_t* positions = nullptr;    // [rows]
  const std::int32_t* merge_begin = nullptr;  // [rows + 1]
  const MergeStep* merges = nullptr;
  int rows = 0;
  int entries = 0;  // of merges, all rows together; at most as many as partials
  ContextOnDevice context;

  AttentionShape shape;
  const float* sinks = nullptr;  // [heads], in device memory; null: none (AttentionShape::sinks)
  const float* query = nullptr;  // row r, head h at query + r * query_stride + h * head_dim
  std::int64_t query_stride = 0;
  // kWideAndNarrow: scaled to units of log2 and rounded to the type of KV, to half precision where
  // that is codes, [rows, heads, padded_dim].
  const void* scaled_query = nullptr;
  KvView kv;
  PartialArrays partials;
  // Every row has one partial, of a wide unit: units write the rows of `out`, no merge follows.
  bool finishes = false;
  RowOutput out;  // row r, head h at out + r * out_stride + h * head_dim
  std::int64_t out_stride = 0;
};

// The form for the current device, this kind of KV and this head size.
UnitForm UnitFormFor(KvType type, int head_dim);

void AttendUnits(cudaStream_t stream, int multiprocessors, KvType type, const AttentionCall& call);
// Whether the units of the call can finish rows that have one partial each: wide ones of whole
// heads can. What becomes of the rows of 8-bit codes is the merge's alone to say.
bool CanFinish(const AttentionCall& call);
// Also sets the counters of the units to zero for the next call.
void MergePartials(cudaStream_t stream, const AttentionCall& call);

// The kernels, each in its own file so that they compile side by side. `blocks`: at most enough to
// fill the device; one block of wide or narrow units fills a multiprocessor. `after_wide`: the
// kernel launched last was that of the wide units of the same call. `type` is not kF32 where it is
// given.
void AttendF32(cudaStream_t stream, int blocks, const AttentionCall& call);
void AttendBlocks(cudaStream_t stream, int blocks, KvType type, const AttentionCall& call);
void AttendWide(cudaStream_t stream, int blocks, KvType type, const AttentionCall& call);
void AttendNarrow(cudaStream_t stream, int blocks, KvType type, const AttentionCall& call,
                  bool after_wide);

}  // namespace banyan::cuda
