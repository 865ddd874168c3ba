#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention_item.h"
#include "kernels/spread.h"

namespace banyan {
namespace {

constexpr std::int64_t kMergedTogether = 2048;  // values at least, for a thread

// The merged partial of a parallel context as the rest meets it. `ends`: its maximum and sum.
void ScaleContext(const ParallelContext& context, float* ends) {
  if (ends[1] == 0.0f) return;
  const float log_sum = ends[0] + std::log2(ends[1]);
  ends[0] += (context.scale - 1.0f) * log_sum;
}

// Merges a row's partials of one head in canonical order and writes the normalised value.
void FinishRow(const AttentionCall& call, const VectorKernels& vector, AttentionScratch& scratch,
               int row, int head) {
  const int dim = call.shape.head_dim;
  const int padded = call.kv.padded_dim();
  const int heads_of_kv = call.shape.heads / call.shape.kv_heads;
  const AttentionPlan& plan = call.plan;
  float* total = nullptr;                      // stretches merged so far
  float *stretch = nullptr, *group = nullptr;  // those being merged
  // Partials belong to one (row, item), so merging in place disturbs no other row.
  const auto close = [&](float*& part, float*& whole) {
    if (part == nullptr) return;
    if (whole == nullptr) {
      whole = part;
    } else {
      vector.merge(whole, part, padded);
    }
    part = nullptr;
  };
  const std::int32_t begin = plan.merge_begin[static_cast<size_t>(row)];
  const std::int32_t end = plan.merge_begin[static_cast<size_t>(row) + 1];
  for (std::int32_t i = begin; i < end; ++i) {
    const MergeEntry& entry = plan.merges[static_cast<size_t>(i)];
    if (entry.opens != Opening::kCut) close(group, stretch);
    if (entry.opens >= Opening::kStretch) close(stretch, total);
    if (entry.opens == Opening::kRest && total != nullptr) {
      ScaleContext(plan.context, total + padded);
    }
    float* partial = scratch.Partial(head / heads_of_kv, entry.partial, head % heads_of_kv);
    close(partial, group);
  }
  close(group, stretch);
  close(stretch, total);
  if (total != nullptr && !scratch.sinks.empty()) {
    vector.merge(total, scratch.sinks.data() + head * (padded + kPartialEnd), padded);
  }
  float* out = call.out + row * call.out_stride + static_cast<std::int64_t>(head) * dim;
  const float sum = total == nullptr ? 0.0f : total[padded + 1];
  if (sum == 0.0f) {
    std::fill(out, out + dim, 0.0f);
    return;
  }
  vector.scale(total, 1.0f / sum, dim, out);
  if (call.kv.spread()) SpreadHead({out, static_cast<size_t>(dim)});
}

}  // namespace

void AttentionScratch::Reserve(const AttentionCall& call, int threads) {
  ReservePartials(call);
  ReserveWorkers(call, threads);
  SetSinks(call);
}

// Scores are in units of log2, and so are sinks here.
void AttentionScratch::SetSinks(const AttentionCall& call) {
  constexpr float kLog2E = 1.44269504f;
  sinks.clear();
  if (call.sinks == nullptr) return;
  const auto stride = static_cast<size_t>(call.kv.padded_dim() + kPartialEnd);
  sinks.resize(static_cast<size_t>(call.shape.heads) * stride, 0.0f);
  for (size_t head = 0; head < static_cast<size_t>(call.shape.heads); ++head) {
    float* ends = sinks.data() + (head + 1) * stride - kPartialEnd;
    ends[0] = call.sinks[head] * kLog2E;
    ends[1] = 1.0f;
  }
}

void AttentionScratch::ReserveWorkers(const AttentionCall& call, int threads) {
  std::int64_t most_rows = 0;
  bool copies = false, groups = false;  // some item copies keys and values, has several groups
  for (const WorkItem& item : call.plan.items) {
    most_rows = std::max<std::int64_t>(most_rows, item.row_end - item.row_begin);
    copies = copies || ReadsCopies(call, item);
    groups = groups || item.key_end - item.key_begin > kGroupKeys;
  }
  const std::int64_t rows = most_rows * (call.shape.heads / call.shape.kv_heads);
  const std::int64_t dim = call.shape.head_dim;
  const std::int64_t padded = call.kv.padded_dim();
  const auto grow = [](auto& buffer, std::int64_t size) {
    if (static_cast<std::int64_t>(buffer.size()) < size) buffer.resize(static_cast<size_t>(size));
  };
  workers.resize(static_cast<size_t>(threads));
  for (Worker& worker : workers) {
    grow(worker.query, rows * dim);
    grow(worker.scores, rows * kCutKeys);
    grow(worker.seen, rows);
    grow(worker.product, rows * (padded + kPartialEnd));
    if (groups) grow(worker.group, rows * (padded + kPartialEnd));
    if (!copies) continue;
    grow(worker.keys, dim * kCutKeys);
    grow(worker.values, padded * kCutKeys);
  }
}

void AttentionScratch::ReservePartials(const AttentionCall& call) {
  constexpr std::int64_t kLineFloats = kPartialEnd;
  stride_ = call.kv.padded_dim() + kLineFloats;
  count_ = call.plan.partials;
  heads_ = call.shape.heads / call.shape.kv_heads;
  const auto needed = static_cast<size_t>(count_ * call.shape.heads * stride_ + kLineFloats);
  if (memory_.size() < needed) memory_.resize(needed);
  constexpr std::uintptr_t kLine = kLineFloats * sizeof(float);
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  partials_ = memory_.data() + (kLine - address % kLine) % kLine / sizeof(float);
}

void AttendOnCpu(const AttentionCall& call, const VectorKernels& vector, ThreadPool& pool,
                 AttentionScratch& scratch) {
  scratch.Reserve(call, pool.size());
  const int kv_heads = call.shape.kv_heads;
  const std::int64_t items = static_cast<std::int64_t>(call.plan.items.size());
  pool.ForEach(items * kv_heads, [&](std::int64_t task, int worker) {
    const WorkItem& item = call.plan.items[static_cast<size_t>(task / kv_heads)];
    RunAttentionItem(call, item, static_cast<int>(task % kv_heads), vector, scratch, worker);
  });
  const std::int64_t rows = static_cast<std::int64_t>(call.positions.size());
  const std::int64_t row_values =
      static_cast<std::int64_t>(call.shape.heads) * call.kv.padded_dim();
  pool.ForEach(rows, 1 + kMergedTogether / row_values, [&](std::int64_t row, int) {
    for (int head = 0; head < call.shape.heads; ++head) {
      FinishRow(call, vector, scratch, static_cast<int>(row), head);
    }
  });
}

}  // namespace banyan
