#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/hadamard.h"

namespace banyan {
namespace {

// --- One work item: a range of rows on a run of keys, for one KV head ----------------------------

constexpr int kPagesPerCut = kCutKeys / kPageTokens;
// Where rows see different keys of a cut, this many rows are taken at a time.
constexpr int kMaskedRows = 16;

struct RowRange {
  int begin, end;
};

// Whether the item's keys and values are first copied as float32. The heads of a single row are too
// few to pay for a copy, so they convert in registers.
bool ReadsCopies(const AttentionCall& call, const WorkItem& item) {
  return item.row_end - item.row_begin > 1 || call.kv.panel_type() == KvType::kQ8;
}

// Computes the partials of one item for one KV head.
class ItemTask {
 public:
  ItemTask(const AttentionCall& call, const WorkItem& item, int kv_head,
           const VectorKernels& vector, AttentionScratch& scratch, int worker)
      : call_(call),
        item_(item),
        span_(call.plan.spans[static_cast<size_t>(item.span)]),
        kv_head_(kv_head),
        heads_(call.shape.heads / call.shape.kv_heads),
        rows_((item.row_end - item.row_begin) * heads_),
        dim_(call.shape.head_dim),
        padded_dim_(call.kv.padded_dim(call.layer)),
        vector_(vector),
        scratch_(scratch),
        local_(scratch.workers[static_cast<size_t>(worker)]) {}

  void Run() {
    GatherQueries();
    for (int begin = item_.key_begin; begin < item_.key_end; begin += kGroupKeys) RunGroup(begin);
  }

 private:
  // Keys of the span that `row` sees, as [first, last) clipped to the cut.
  std::pair<int, int> VisibleKeys(int row, int begin, int end) const {
    const int position = call_.positions[static_cast<size_t>(row)] - span_.first_position;
    const int last = std::min(end, position + 1);
    const int from = call_.shape.window > 0 ? position - call_.shape.window + 1 : begin;
    const int first = std::clamp(from, begin, end);
    return {first, std::max(first, last)};
  }

  void GatherQueries() {
    // Scores in units of log2, so that weights are powers of two.
    float scale = call_.shape.scale * 1.44269504f;
    const ParallelContext& context = call_.plan.context;
    if (item_.span < context.spans) scale /= context.temperature;
    const std::int64_t count = static_cast<std::int64_t>(heads_) * dim_;
    float* out = local_.query.data();
    for (int row = item_.row_begin; row < item_.row_end; ++row, out += count) {
      vector_.scale(call_.query + row * call_.query_stride + kv_head_ * count, scale, count, out);
    }
  }

  float* PartialOf(int row, int head) const {
    return scratch_.Partial(kv_head_, item_.first_partial + (row - item_.reader_begin), head);
  }
  float* CutPartial(int i) const { return cut_partials_ + i * partial_size(); }
  // The running partial of the current group, packed row i: the item's own in its first group.
  float* GroupPartial(float* partial, int i) const {
    return first_group_ ? partial : local_.group.data() + i * partial_size();
  }
  std::int64_t partial_size() const { return padded_dim_ + kPartialEnd; }
  void Clear(float* partial) const {
    partial[padded_dim_] = -INFINITY;
    partial[padded_dim_ + 1] = 0.0f;
  }

  // visit(partial, packed row) for all readers.
  template <typename Visit>
  void ForEachPartial(const Visit& visit) const {
    for (int row = item_.reader_begin; row < item_.reader_end; ++row) {
      for (int head = 0; head < heads_; ++head) {
        visit(PartialOf(row, head), (row - item_.row_begin) * heads_ + head);
      }
    }
  }

  // A later group of the item is merged as a whole.
  void RunGroup(int begin) {
    first_group_ = begin == item_.key_begin;
    empty_ = true;
    const int end = std::min(begin + kGroupKeys, item_.key_end);
    for (int cut = begin; cut < end; cut += kCutKeys) RunCut(cut, std::min(cut + kCutKeys, end));
    if (empty_) ClearGroup();
    if (first_group_) return;
    ForEachPartial([&](float* partial, int i) {
      vector_.merge(partial, GroupPartial(partial, i), padded_dim_);
    });
  }

  void ClearGroup() const {
    ForEachPartial([&](float* partial, int i) { Clear(GroupPartial(partial, i)); });
  }

  // The group's partials if they are those of all rows in order, else null.
  float* WholeGroup() const {
    if (!first_group_) return local_.group.data();
    const bool all_read =
        item_.reader_begin == item_.row_begin && item_.reader_end == item_.row_end;
    return all_read ? PartialOf(item_.row_begin, 0) : nullptr;
  }

  // The end of the keys of the cut that some of the rows see; `begin` where there are none.
  int LastSeen(RowRange rows, int begin, int end) const {
    int seen = begin;
    for (int row = rows.begin; row < rows.end; ++row) {
      const auto [first, last] = VisibleKeys(row, begin, end);
      if (first < last) seen = std::max(seen, last);
    }
    return seen;
  }

  void RunCut(int begin, int end) {
    end = LastSeen({item_.row_begin, item_.row_end}, begin, end);
    if (begin == end) return;
    // The first visible cut becomes the group; rows that do not see it have empty partials.
    float* group = empty_ ? WholeGroup() : nullptr;
    if (empty_ && group == nullptr) ClearGroup();
    empty_ = false;
    cut_partials_ = group != nullptr ? group : local_.product.data();
    if (ReadsCopies(call_, item_)) {
      RunCutOfRows(begin, end);
    } else {
      RunCutOfOneRow(begin, end);
    }
    if (group != nullptr) return;
    ForEachPartial([&](float* partial, int i) {
      vector_.merge(GroupPartial(partial, i), CutPartial(i), padded_dim_);
    });
  }

  std::int32_t PageOf(int key) const {
    return call_.plan.pages[static_cast<size_t>(span_.first_page + key / kPageTokens)];
  }

  void Multiply(const PanelProduct& product) const {
    switch (call_.kv.panel_type()) {
      case KvType::kF16:
        return vector_.product_f16(product);
      case KvType::kBF16:
        return vector_.product_bf16(product);
      default:
        return vector_.product_f32(product);
    }
  }

  // Without copies of keys and values. All pages of keys are read at once, for enough chains.
  // These, and so the bits, are those of RunCutOfRows.
  void RunCutOfOneRow(int begin, int end) {
    const auto [first, last] = VisibleKeys(item_.row_begin, begin, end);
    const int first_page = first / kPageTokens * kPageTokens;
    const void* keys[kPagesPerCut];
    PanelProduct scores;
    scores.panel_at = keys;
    for (int key = first_page; key < last; key += kPageTokens) {
      keys[scores.panel_count++] = call_.kv.Keys(call_.layer, kv_head_, PageOf(key));
      Fetch(call_.kv.Values(call_.layer, kv_head_, PageOf(key), 0));
    }
    scores.x = local_.query.data();
    scores.x_stride = dim_;
    scores.rows = rows_;
    scores.inner = dim_;
    scores.out = local_.scores.data() + (first_page - begin);
    scores.out_stride = kCutKeys;
    Multiply(scores);
    const int padded = (last - begin + kPageTokens - 1) / kPageTokens * kPageTokens;
    std::fill_n(local_.seen.begin(), rows_, SoftmaxRows::Keys{first - begin, last - begin});
    Softmax(0, rows_, padded);
    PanelProduct weighted;
    weighted.x_stride = kCutKeys;
    weighted.rows = rows_;
    weighted.panel_stride = kPageTokens * kPanelWidth;
    weighted.panel_count = padded_dim_ / kPanelWidth;
    weighted.out = cut_partials_;
    weighted.out_stride = partial_size();
    for (int page = first_page; page < last; page += kPageTokens) {
      const int key = std::max(page, first);
      weighted.x = local_.scores.data() + (key - begin);
      weighted.inner = std::min(page + kPageTokens, last) - key;
      weighted.panels = call_.kv.Values(call_.layer, kv_head_, PageOf(page), key % kPageTokens);
      if (page + kCutKeys < item_.key_end) {
        Fetch(call_.kv.Keys(call_.layer, kv_head_, PageOf(page + kCutKeys)));
      }
      Multiply(weighted);
      weighted.goes_on = true;
    }
  }

  // Prefetches a page's keys or values of two bytes each. Hardware prefetchers miss them, as pages
  // of one head lie far apart.
  void Fetch(const void* tile) const {
    const int bytes = dim_ * kPageTokens * 2;
    for (int i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(tile) + i);
  }

  // Weights of packed rows [first, first + count) from their scores of `keys` keys.
  void Softmax(int first, int count, int keys) const {
    SoftmaxRows rows;
    rows.scores = local_.scores.data() + static_cast<std::int64_t>(first) * kCutKeys;
    rows.stride = kCutKeys;
    rows.rows = count;
    rows.keys = keys;
    rows.seen = local_.seen.data() + first;
    rows.max_and_sum = CutPartial(first) + padded_dim_;
    rows.ends_stride = partial_size();
    vector_.softmax(rows);
  }

  void RunCutOfRows(int begin, int end) {
    ReadCut(begin, (end - begin + kPageTokens - 1) / kPageTokens);
    const RowRange all{item_.row_begin, item_.row_end};
    if (EveryoneSees(begin, end)) return RunRows(all, begin, end, true);
    const bool finite = ValuesFinite(end - begin);
    for (int row = all.begin; row < all.end; row += kMaskedRows) {
      const RowRange rows{row, std::min(row + kMaskedRows, all.end)};
      RunRows(rows, begin, LastSeen(rows, begin, end), finite);
    }
  }

  // Some rows of the item, none of which sees a key of the cut from `end` on. Keys that a row does
  // not see have weight zero, which adds nothing unless the value is not finite; then (`together`
  // is false) each row takes its own keys alone (the same bits).
  void RunRows(RowRange rows, int begin, int end, bool together) {
    const int first = (rows.begin - item_.row_begin) * heads_;
    const int count = (rows.end - rows.begin) * heads_;
    for (int row = rows.begin; row < rows.end; ++row) {
      const auto [from, to] = VisibleKeys(row, begin, end);
      std::fill_n(local_.seen.begin() + (row - item_.row_begin) * heads_, heads_,
                  SoftmaxRows::Keys{from - begin, to - begin});
    }
    const int pages = (end - begin + kPageTokens - 1) / kPageTokens;
    PanelProduct scores;
    scores.x = local_.query.data() + static_cast<std::int64_t>(first) * dim_;
    scores.x_stride = dim_;
    scores.rows = count;
    scores.inner = dim_;
    scores.panels = local_.keys.data();
    scores.panel_stride = static_cast<std::int64_t>(dim_) * kPageTokens;
    scores.panel_count = pages;
    scores.out = local_.scores.data() + static_cast<std::int64_t>(first) * kCutKeys;
    scores.out_stride = kCutKeys;
    vector_.product_f32(scores);
    Softmax(first, count, pages * kPageTokens);
    if (together) {
      WeighValues(first, count, {0, end - begin});
    } else {
      for (int i = first; i < first + count; ++i) {
        WeighValues(i, 1, local_.seen[static_cast<size_t>(i)]);
      }
    }
  }

  // Values of `keys` of the cut by the weights of packed rows [first, first + count).
  void WeighValues(int first, int count, SoftmaxRows::Keys keys) const {
    PanelProduct weighted;
    weighted.x = local_.scores.data() + static_cast<std::int64_t>(first) * kCutKeys + keys.begin;
    weighted.x_stride = kCutKeys;
    weighted.rows = count;
    weighted.inner = keys.end - keys.begin;
    weighted.panels = local_.values.data() + static_cast<std::int64_t>(keys.begin) * kPanelWidth;
    weighted.panel_stride = static_cast<std::int64_t>(kCutKeys) * kPanelWidth;
    weighted.panel_count = padded_dim_ / kPanelWidth;
    weighted.out = CutPartial(first);
    weighted.out_stride = partial_size();
    vector_.product_f32(weighted);
  }

  bool EveryoneSees(int begin, int end) const {
    for (int row = item_.row_begin; row < item_.row_end; ++row) {
      if (VisibleKeys(row, begin, end) != std::pair(begin, end)) return false;
    }
    return true;
  }

  bool ValuesFinite(int keys) const {
    for (int block = 0; block < padded_dim_ / kPanelWidth; ++block) {
      const float* values =
          local_.values.data() + static_cast<std::int64_t>(block) * kCutKeys * kPanelWidth;
      if (!vector_.all_finite(values, static_cast<std::int64_t>(keys) * kPanelWidth)) return false;
    }
    return true;
  }

  // The cut's keys and values as float32 panels.
  void ReadCut(int begin, int pages) {
    const std::int64_t key_tile = static_cast<std::int64_t>(dim_) * kPageTokens;
    const std::int64_t block_stride = static_cast<std::int64_t>(kCutKeys) * kPanelWidth;
    for (int i = 0; i < pages; ++i) {
      const std::int32_t page = PageOf(begin + i * kPageTokens);
      call_.kv.ReadKeys(vector_, call_.layer, kv_head_, page, local_.keys.data() + i * key_tile);
      call_.kv.ReadValues(vector_, call_.layer, kv_head_, page,
                          local_.values.data() + i * kPageTokens * kPanelWidth, block_stride);
    }
  }

  const AttentionCall& call_;
  const WorkItem& item_;
  const KvSpan& span_;
  const int kv_head_;
  const int heads_;  // query heads per KV head
  const int rows_;   // item rows × heads_
  const int dim_;
  const int padded_dim_;
  const VectorKernels& vector_;
  AttentionScratch& scratch_;
  AttentionScratch::Worker& local_;
  bool first_group_ = true;
  bool empty_ = true;              // no row has seen a key of the current group yet
  float* cut_partials_ = nullptr;  // of all rows, for the current cut
};

// --- Merging the partials of a row ---------------------------------------------------------------

constexpr std::int64_t kMergedTogether = 2048;  // least values that a thread merges

// Scales the merged partial of a parallel context before the rest is merged. `ends`: its maximum
// and sum.
void ScaleContext(const ParallelContext& context, float* ends) {
  if (ends[1] == 0.0f) return;
  const float log_sum = ends[0] + std::log2(ends[1]);
  ends[0] += (context.scale - 1.0f) * log_sum;
}

// Merges a row's partials of one head in canonical order and writes the normalised value.
void FinishRow(const AttentionCall& call, const VectorKernels& vector, AttentionScratch& scratch,
               int row, int head) {
  const int dim = call.shape.head_dim;
  const int padded = call.kv.padded_dim(call.layer);
  const int heads_of_kv = call.shape.heads / call.shape.kv_heads;
  const AttentionPlan& plan = call.plan;
  float* total = nullptr;                    // chunks merged so far
  float *chunk = nullptr, *group = nullptr;  // those being merged
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
    if (entry.opens != Opening::kCut) close(group, chunk);
    if (entry.opens >= Opening::kChunk) close(chunk, total);
    if (entry.opens == Opening::kRest && total != nullptr) {
      ScaleContext(plan.context, total + padded);
    }
    float* partial = scratch.Partial(head / heads_of_kv, entry.partial, head % heads_of_kv);
    close(partial, group);
  }
  close(group, chunk);
  close(chunk, total);
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
  if (call.kv.hadamard()) HadamardHead({out, static_cast<size_t>(dim)});
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
  const auto stride = static_cast<size_t>(call.kv.padded_dim(call.layer) + kPartialEnd);
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
  const std::int64_t padded = call.kv.padded_dim(call.layer);
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
  stride_ = call.kv.padded_dim(call.layer) + kLineFloats;
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
    ItemTask(call, item, static_cast<int>(task % kv_heads), vector, scratch, worker).Run();
  });
  const std::int64_t rows = static_cast<std::int64_t>(call.positions.size());
  const std::int64_t row_values =
      static_cast<std::int64_t>(call.shape.heads) * call.kv.padded_dim(call.layer);
  pool.ForEach(rows, 1 + kMergedTogether / row_values, [&](std::int64_t row, int) {
    for (int head = 0; head < call.shape.heads; ++head) {
      FinishRow(call, vector, scratch, static_cast<int>(row), head);
    }
  });
}

}  // namespace banyan
