// Tree attention on the CPU: work items → partials → one output per row. See plan/attention_plan.h
// for the canonical order.
#pragma once

#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/kv_pages.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/kernels.h"

namespace banyan {

struct AttentionCall {
  const AttentionPlan& plan;
  std::span<const std::int32_t> positions;  // [rows]
  int layer;
  const AttentionShape& shape;
  const float* query;         // row r, head h at query + r * query_stride + h * head_dim
  std::int64_t query_stride;  // floats
  const KvPages& kv;
  float* out;  // row r, head h at out + r * out_stride + h * head_dim
  std::int64_t out_stride;
};

// Memory that lives from call to call, so that a step allocates nothing once it has grown.
class AttentionScratch {
 public:
  struct Worker {
    std::vector<float> query;     // [rows, head_dim], scaled
    std::vector<float> scores;    // [rows, kCutKeys]
    std::vector<float> keys;      // [cut pages, head_dim, 16]
    std::vector<float> values;    // [padded_dim / 16, kCutKeys, 16]
    std::vector<float> product;   // [rows, padded_dim]: one cut's weighted values
    std::vector<float> max, sum;  // [rows] of one cut
    // Partials of a group of an item that runs through several.
    std::vector<float> group_value;           // [rows, padded_dim]
    std::vector<float> group_max, group_sum;  // [rows]
  };
  std::vector<Worker> workers;
  // Partials: weighted values relative to 2^max, and their weights' sum; sum 0 = empty.
  std::vector<float> value;  // [partials, heads, padded_dim]
  std::vector<float> max;    // [partials, heads], in units of log2
  std::vector<float> sum;    // [partials, heads]
};

void AttendOnCpu(const AttentionCall& call, const VectorKernels& vector, ThreadPool& pool,
                 AttentionScratch& scratch);

}  // namespace banyan
