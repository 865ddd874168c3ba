// RotateAndStore and Attend. A row's attention is one softmax over the list of keys it sees, taken
// in the order of its merge list: how a plan cuts that list cannot change the result.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/reference/reference_network.h"

namespace banyan::reference {
namespace {

// Pairs (i, i + rotary_dim / 2) of the first rotary_dim values turn; the rest stays.
void RotateHead(const StepRope& rope, int row, std::span<float> head) {
  const size_t half = static_cast<size_t>(rope.rotary_dim) / 2;
  BANYAN_CHECK(2 * half <= head.size());
  for (size_t i = 0; i < half; ++i) {
    const double cosine = rope.cosines[row * half + i];
    const double sine = rope.sines[row * half + i];
    const double first = head[i];
    const double second = head[half + i];
    head[i] = static_cast<float>(first * cosine - second * sine);
    head[half + i] = static_cast<float>(second * cosine + first * sine);
  }
}

void NormalizeHeads(std::span<float> heads, const Vector* weight, const QkNormWeights& norm,
                    size_t head_dim) {
  if (weight == nullptr) return;
  const std::vector<float>& w = AsFloats(*weight).values;
  const size_t group = norm.whole ? heads.size() : head_dim;
  for (size_t begin = 0; begin < heads.size(); begin += group) {
    const std::span<float> part = heads.subspan(begin, group);
    NormalizeRow(part, w, norm.eps, part);
  }
}

// Keys that a row sees, in the order of its merge list.
struct SeenKeys {
  std::vector<std::int32_t> slots;
  size_t of_context = 0;  // the first ones, of the plan's parallel context
};

SeenKeys KeysSeenBy(const Step& step, int window, int row) {
  const AttentionPlan& plan = step.plan;
  const std::int32_t position = step.batch.positions[row];
  SeenKeys seen;
  for (std::int32_t m = plan.merge_begin[row]; m < plan.merge_begin[row + 1]; ++m) {
    const std::int32_t partial = plan.merges[m].partial;
    const WorkItem& item = plan.items[step.item_of_partial[partial]];
    BANYAN_CHECK(row >= item.reader_begin && row < item.reader_end &&
                 partial == item.first_partial + row - item.reader_begin);
    const KvSpan& span = plan.spans[item.span];
    for (std::int32_t i = item.key_begin; i < item.key_end; ++i) {
      const std::int32_t back = position - (span.first_position + i);
      if (back < 0 || (window > 0 && back >= window)) continue;
      seen.slots.push_back(plan.pages[span.first_page + i / kPageTokens] * kPageTokens +
                           i % kPageTokens);
    }
    if (item.span < plan.context.spans) seen.of_context = seen.slots.size();
  }
  return seen;
}

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// The scores of a parallel context as the rest of the row's scores meet them.
void AdjustContext(const ParallelContext& context, std::span<double> scores) {
  if (scores.empty()) return;
  for (double& s : scores) s /= context.temperature;
  const double largest = *std::ranges::max_element(scores);
  double sum = 0.0;
  for (const double s : scores) sum += std::exp(s - largest);
  const double shift = (context.scale - 1.0) * (largest + std::log(sum));
  for (double& s : scores) s += shift;
}

// Weights of a softmax, in place.
void Softmax(std::vector<double>& scores) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const double s : scores) largest = std::max(largest, s);
  double sum = 0.0;
  for (double& s : scores) {
    s = std::exp(s - largest);
    sum += s;
  }
  for (double& s : scores) s /= sum;
}

}  // namespace

void RotateAndStore(const LayerView& view, const QkNormWeights& norm, Tensor& qkv, FloatKv& kv) {
  const AttentionShape& shape = view.shape;
  const size_t head_dim = static_cast<size_t>(shape.head_dim);
  const size_t query_size = shape.heads * head_dim;
  const size_t key_size = shape.kv_heads * head_dim;
  BANYAN_CHECK(qkv.rows == view.step.rows);
  BANYAN_CHECK(static_cast<size_t>(qkv.columns) == query_size + 2 * key_size);
  BANYAN_CHECK(kv.shape.kv_heads == shape.kv_heads && kv.shape.head_dim == shape.head_dim);
  for (int r = 0; r < view.step.rows; ++r) {
    const std::span<float> query = Row(qkv, r).first(query_size);
    const std::span<float> key = Row(qkv, r).subspan(query_size, key_size);
    const std::span<float> value = Row(qkv, r).last(key_size);
    NormalizeHeads(query, norm.query, norm, head_dim);
    NormalizeHeads(key, norm.key, norm, head_dim);
    if (shape.rope != kNoRope) {
      const StepRope& rope = view.step.ropes.at(static_cast<size_t>(shape.rope));
      for (int h = 0; h < shape.heads; ++h) {
        RotateHead(rope, r, query.subspan(h * head_dim, head_dim));
      }
      for (int h = 0; h < shape.kv_heads; ++h) {
        RotateHead(rope, r, key.subspan(h * head_dim, head_dim));
      }
      for (float& value : query) value *= rope.query_factors[static_cast<size_t>(r)];
    }
    for (int h = 0; h < shape.kv_heads; ++h) {
      const size_t at = kv.Offset(view.layer, view.step.batch.slots[r], h);
      const auto stored_key = std::span(kv.keys).subspan(at, head_dim);
      const auto stored_value = std::span(kv.values).subspan(at, head_dim);
      std::ranges::copy(key.subspan(h * head_dim, head_dim), stored_key.begin());
      std::ranges::copy(value.subspan(h * head_dim, head_dim), stored_value.begin());
      RoundToKvType(kv.type, stored_key);
      RoundToKvType(kv.type, stored_value);
    }
  }
}

void Attend(const LayerView& view, const Tensor& qkv, const FloatKv& kv, Tensor& out) {
  const AttentionShape& shape = view.shape;
  const size_t head_dim = static_cast<size_t>(shape.head_dim);
  const int heads_per_kv_head = shape.heads / shape.kv_heads;
  BANYAN_CHECK(shape.heads % shape.kv_heads == 0);
  BANYAN_CHECK(out.rows == view.step.rows && qkv.rows == view.step.rows);
  BANYAN_CHECK(static_cast<size_t>(out.columns) == shape.heads * head_dim);
  for (int r = 0; r < view.step.rows; ++r) {
    const auto [slots, of_context] = KeysSeenBy(view.step, shape.window, r);
    for (int h = 0; h < shape.heads; ++h) {
      const std::span<const float> query = Row(qkv, r).subspan(h * head_dim, head_dim);
      std::vector<double> weights;
      for (const std::int32_t slot : slots) {
        const size_t at = kv.Offset(view.layer, slot, h / heads_per_kv_head);
        weights.push_back(Dot(query, std::span(kv.keys).subspan(at, head_dim)) * shape.scale);
      }
      AdjustContext(view.step.plan.context, std::span(weights).first(of_context));
      if (shape.sinks != nullptr) {  // a score more, whose weight goes nowhere
        weights.push_back(AsFloats(*shape.sinks).values[static_cast<size_t>(h)]);
      }
      Softmax(weights);
      std::vector<double> sum(head_dim, 0.0);
      for (size_t i = 0; i < slots.size(); ++i) {
        const size_t at = kv.Offset(view.layer, slots[i], h / heads_per_kv_head);
        for (size_t d = 0; d < head_dim; ++d) sum[d] += weights[i] * kv.values[at + d];
      }
      // No visible key: the sums are zero, and so is the result.
      std::ranges::transform(sum, Row(out, r).subspan(h * head_dim, head_dim).begin(),
                             [](double x) { return static_cast<float>(x); });
    }
  }
}

}  // namespace banyan::reference
