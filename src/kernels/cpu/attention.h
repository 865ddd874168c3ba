// Tree attention on the CPU: work items → partials → one output per row. See plan/attention_plan.h
// for the canonical order.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/kv_pages.h"
#include "kernels/cpu/loops/vector_kernels.h"
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
  const float* sinks = nullptr;  // [heads], or null; see AttentionShape
};

// Memory kept from call to call, so that a step allocates nothing once it has grown. It grows for
// all threads before they start, as any thread may take any item.
class AttentionScratch {
 public:
  struct alignas(128) Worker {
    std::vector<float> query;             // [rows, head_dim], scaled
    std::vector<float> scores;            // [rows, kCutKeys]
    std::vector<SoftmaxRows::Keys> seen;  // [rows] keys of the current cut
    std::vector<float> keys;              // [cut pages, head_dim, 16]
    std::vector<float> values;            // [padded_dim / 16, kCutKeys, 16]
    std::vector<float> product;           // [rows] partials of one cut
    std::vector<float> group;  // [rows] partials of a group of an item that runs through several
  };
  std::vector<Worker> workers;
  std::vector<float> sinks;  // [heads] partials of no values; empty without sinks

  void Reserve(const AttentionCall& call, int threads);
  // Partials [kv heads, partials, heads per kv head]: those of an item's readers for a kv head are
  // contiguous, each in cache lines of its own.
  float* Partial(int kv_head, std::int64_t partial, int head) const {
    return partials_ + ((kv_head * count_ + partial) * heads_ + head) * stride_;
  }

 private:
  void ReservePartials(const AttentionCall& call);
  void SetSinks(const AttentionCall& call);
  void ReserveWorkers(const AttentionCall& call, int threads);

  std::vector<float> memory_;
  float* partials_ = nullptr;  // within memory_, at the start of a cache line
  std::int64_t stride_ = 0;    // floats of a partial
  std::int64_t count_ = 0;     // partials of a head
  std::int64_t heads_ = 0;     // per kv head
};

void AttendOnCpu(const AttentionCall& call, const VectorKernels& vector, ThreadPool& pool,
                 AttentionScratch& scratch);

}  // namespace banyan
