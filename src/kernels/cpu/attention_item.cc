#include "kernels/cpu/attention_item.h"

#include <algorithm>
#include <cmath>

namespace banyan {
namespace {

constexpr int kPagesPerCut = kCutKeys / kPageTokens;

// One item for one KV head.
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
        padded_dim_(call.kv.padded_dim()),
        vector_(vector),
        scratch_(scratch),
        local_(scratch.workers[static_cast<size_t>(worker)]) {}

  void Run() {
    GatherQueries();
    ForEachPartial([this](float* partial, int) { Clear(partial); });
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
    const float scale = call_.shape.scale * 1.44269504f;
    const std::int64_t count = static_cast<std::int64_t>(heads_) * dim_;
    float* out = local_.query.data();
    for (int row = item_.row_begin; row < item_.row_end; ++row, out += count) {
      vector_.scale(call_.query + row * call_.query_stride + kv_head_ * count, scale, count, out);
    }
  }

  float* PartialOf(int row, int head) const {
    const std::int64_t partial = item_.first_partial + (row - item_.reader_begin);
    return scratch_.Partial(partial * call_.shape.heads + kv_head_ * heads_ + head);
  }
  float* CutPartial(int i) const { return local_.product.data() + i * partial_size(); }
  // The running partial of the group at hand, packed row i: the item's own in its first group.
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

  // A later group of the item starts from nothing and is merged as a whole.
  void RunGroup(int begin) {
    first_group_ = begin == item_.key_begin;
    if (!first_group_) {
      ForEachPartial([&](float* partial, int i) { Clear(GroupPartial(partial, i)); });
    }
    const int end = std::min(begin + kGroupKeys, item_.key_end);
    for (int cut = begin; cut < end; cut += kCutKeys) RunCut(cut, std::min(cut + kCutKeys, end));
    if (first_group_) return;
    ForEachPartial([&](float* partial, int i) {
      vector_.merge(partial, GroupPartial(partial, i), padded_dim_);
    });
  }

  // The end of the keys of the cut that some row of the item sees; `begin` where there are none.
  int LastSeen(int begin, int end) const {
    int seen = begin;
    for (int row = item_.row_begin; row < item_.row_end; ++row) {
      const auto [first, last] = VisibleKeys(row, begin, end);
      if (first < last) seen = std::max(seen, last);
    }
    return seen;
  }

  void RunCut(int begin, int end) {
    end = LastSeen(begin, end);
    if (begin == end) return;
    if (ReadsCopies(call_, item_)) {
      RunCutOfRows(begin, end);
    } else {
      RunCutOfOneRow(begin, end);
    }
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
    for (int i = 0; i < rows_; ++i) {
      vector_.softmax_cut(local_.scores.data() + static_cast<std::int64_t>(i) * kCutKeys,
                          first - begin, last - begin, padded, CutPartial(i) + padded_dim_);
    }
    PanelProduct weighted;
    weighted.x_stride = kCutKeys;
    weighted.rows = rows_;
    weighted.panel_stride = kPageTokens * kPanelWidth;
    weighted.panel_count = padded_dim_ / kPanelWidth;
    weighted.out = local_.product.data();
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

  // Asks memory for a page's keys or values, of two bytes each. Processors do not foresee them:
  // pages of one head are far from one another.
  void Fetch(const void* tile) const {
    const int bytes = dim_ * kPageTokens * 2;
    for (int i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(tile) + i);
  }

  void RunCutOfRows(int begin, int end) {
    const int keys = end - begin;
    const int pages = (keys + kPageTokens - 1) / kPageTokens;
    ReadCut(begin, pages);
    PanelProduct scores;
    scores.x = local_.query.data();
    scores.x_stride = dim_;
    scores.rows = rows_;
    scores.inner = dim_;
    scores.panels = local_.keys.data();
    scores.panel_stride = static_cast<std::int64_t>(dim_) * kPageTokens;
    scores.panel_count = pages;
    scores.out = local_.scores.data();
    scores.out_stride = kCutKeys;
    vector_.product_f32(scores);

    for (int i = 0; i < rows_; ++i) {
      const auto [first, last] = VisibleKeys(item_.row_begin + i / heads_, begin, end);
      vector_.softmax_cut(local_.scores.data() + static_cast<std::int64_t>(i) * kCutKeys,
                          first - begin, last - begin, pages * kPageTokens,
                          CutPartial(i) + padded_dim_);
    }

    WeighValues(begin, end);
  }

  // Weighted values of the cut. Keys that a row does not see have weight zero, which adds nothing
  // unless the value is not finite; then each row takes its own keys alone (the same bits).
  void WeighValues(int begin, int end) {
    PanelProduct weighted;
    weighted.x_stride = kCutKeys;
    weighted.panel_stride = static_cast<std::int64_t>(kCutKeys) * kPanelWidth;
    weighted.panel_count = padded_dim_ / kPanelWidth;
    weighted.out_stride = partial_size();
    if (EveryoneSees(begin, end) || ValuesFinite(end - begin)) {
      weighted.x = local_.scores.data();
      weighted.rows = rows_;
      weighted.inner = end - begin;
      weighted.panels = local_.values.data();
      weighted.out = local_.product.data();
      vector_.product_f32(weighted);
      return;
    }
    for (int i = 0; i < rows_; ++i) {
      const auto [first, last] = VisibleKeys(item_.row_begin + i / heads_, begin, end);
      weighted.x = local_.scores.data() + static_cast<std::int64_t>(i) * kCutKeys + (first - begin);
      weighted.rows = 1;
      weighted.inner = last - first;
      weighted.panels =
          local_.values.data() + static_cast<std::int64_t>(first - begin) * kPanelWidth;
      weighted.out = CutPartial(i);
      vector_.product_f32(weighted);
    }
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
};

}  // namespace

void RunAttentionItem(const AttentionCall& call, const WorkItem& item, int kv_head,
                      const VectorKernels& vector, AttentionScratch& scratch, int worker) {
  ItemTask(call, item, kv_head, vector, scratch, worker).Run();
}

}  // namespace banyan
