#include "kernels/reference/reference_network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "kernels/int8.h"
#include "tensor/narrow_floats.h"

namespace banyan::reference {

void Embed(const Step& step, const FloatMatrix& table, Tensor& out) {
  BANYAN_CHECK(out.rows == step.rows && out.columns == table.columns);
  for (int r = 0; r < step.rows; ++r) {
    std::ranges::copy(table.Row(step.batch.tokens[r]), Row(out, r).begin());
  }
}

void EmbedRange(const Step& step, const FloatMatrix& table, std::int64_t first, Tensor& out) {
  BANYAN_CHECK(out.rows == step.rows && out.columns == table.columns);
  for (int r = 0; r < step.rows; ++r) {
    const std::int64_t at = step.batch.tokens[r] - first;
    if (at >= 0 && at < table.rows) std::ranges::copy(table.Row(at), Row(out, r).begin());
  }
}

void NormalizeRow(std::span<const float> x, std::span<const float> weight, float eps,
                  std::span<float> out) {
  BANYAN_CHECK(weight.size() == x.size() && out.size() == x.size());
  double sum = 0.0;
  for (const float v : x) sum += static_cast<double>(v) * v;
  const double factor = 1.0 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  for (size_t i = 0; i < x.size(); ++i) out[i] = static_cast<float>(x[i] * factor * weight[i]);
}

void RmsNorm(const Tensor& x, std::span<const float> weight, float eps, Tensor& out) {
  BANYAN_CHECK(out.rows == x.rows && out.columns == x.columns);
  for (std::int64_t r = 0; r < x.rows; ++r) NormalizeRow(Row(x, r), weight, eps, Row(out, r));
}

void RmsNormGroups(const Tensor& x, std::int64_t group, std::span<const float> weight, float eps,
                   Tensor& out) {
  const auto size = static_cast<size_t>(group), columns = static_cast<size_t>(x.columns);
  BANYAN_CHECK(out.rows == x.rows && out.columns == x.columns && columns % size == 0);
  BANYAN_CHECK(weight.size() == size || weight.size() == columns);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (size_t first = 0; first < columns; first += size) {
      NormalizeRow(Row(x, r).subspan(first, size),
                   weight.subspan(weight.size() == size ? 0 : first, size), eps,
                   Row(out, r).subspan(first, size));
    }
  }
}

void LayerNorm(const Tensor& x, const FloatVector& weight, const FloatVector& bias, float eps,
               Tensor& out) {
  BANYAN_CHECK(out.rows == x.rows && out.columns == x.columns);
  BANYAN_CHECK(weight.size == x.columns && bias.size == x.columns);
  const auto count = static_cast<double>(x.columns);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const std::span<const float> in = Row(x, r);
    double mean = 0.0, variance = 0.0;
    for (const float v : in) mean += v / count;
    for (const float v : in) variance += (v - mean) * (v - mean) / count;
    const double factor = 1.0 / std::sqrt(variance + eps);
    for (size_t i = 0; i < in.size(); ++i) {
      Row(out, r)[i] =
          static_cast<float>((in[i] - mean) * factor * weight.values[i] + bias.values[i]);
    }
  }
}

void Clear(Tensor& x) {
  for (std::int64_t r = 0; r < x.rows; ++r) std::ranges::fill(Row(x, r), 0.0f);
}

void Add(const Tensor& delta, Tensor& x) {
  BANYAN_CHECK(delta.rows == x.rows && delta.columns == x.columns);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const std::span<float> sum = Row(x, r);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += Row(delta, r)[i];
  }
}

namespace {

// Quantizes a row's bf16 values to `codes`. Returns the scale.
float QuantizeRow(std::span<const float> row, std::span<std::int8_t> codes) {
  std::vector<float> values;
  values.reserve(row.size());
  for (const float value : row) values.push_back(BF16ToFloat(FloatToBF16(value)));
  HadamardRow(values);
  float largest = 0.0f;
  for (const float value : values) {
    const float magnitude = std::fabs(value);
    largest = magnitude <= largest ? largest : magnitude;  // a NaN stays
    if (std::isnan(magnitude)) break;
  }
  const Int8Scale scale = Int8ScaleOf(largest);
  for (size_t k = 0; k < values.size(); ++k) {
    codes[k] = static_cast<std::int8_t>(QuantizeInt8(values[k], scale));
  }
  return scale.scale;
}

void MultiplyInt8(std::span<const float> x, const FloatMatrix& w, const FloatVector* bias,
                  std::span<float> out) {
  std::vector<std::int8_t> codes(static_cast<size_t>(w.columns));
  const float row_scale = QuantizeRow(x, codes);
  for (size_t n = 0; n < out.size(); ++n) {
    const std::int8_t* weights = w.codes.data() + n * codes.size();
    std::int32_t sum = 0;
    for (size_t k = 0; k < codes.size(); ++k) sum += std::int32_t{codes[k]} * weights[k];
    out[n] = DequantizeSum(sum, row_scale, w.scales[n]);
    if (bias != nullptr) out[n] += bias->values[n];
  }
}

}  // namespace

std::shared_ptr<const Matrix> QuantizeMatrix(const FloatMatrix& matrix) {
  auto quantized = std::make_shared<FloatMatrix>();
  quantized->rows = matrix.rows;
  quantized->columns = matrix.columns;
  quantized->codes.resize(matrix.values.size());
  quantized->scales.resize(static_cast<size_t>(matrix.rows));
  const auto columns = static_cast<size_t>(matrix.columns);
  for (size_t n = 0; n < quantized->scales.size(); ++n) {
    quantized->scales[n] = QuantizeRow(matrix.Row(static_cast<std::int64_t>(n)),
                                       std::span(quantized->codes).subspan(n * columns, columns));
  }
  quantized->bytes =
      static_cast<std::int64_t>(quantized->codes.size() + quantized->scales.size() * 4);
  return quantized;
}

void MatMul(const Tensor& x, const FloatMatrix& w, const FloatVector* bias, Tensor& out) {
  BANYAN_CHECK(x.columns == w.columns && out.columns == w.rows && out.rows == x.rows);
  BANYAN_CHECK(bias == nullptr || bias->size == w.rows);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const std::span<const float> input = Row(x, r);
    const std::span<float> output = Row(out, r);
    if (!w.codes.empty()) {
      MultiplyInt8(input, w, bias, output);
      continue;
    }
    for (std::int64_t n = 0; n < w.rows; ++n) {
      const std::span<const float> weights = w.Row(n);
      double sum = 0.0;
      for (size_t k = 0; k < input.size(); ++k) sum += static_cast<double>(input[k]) * weights[k];
      if (bias != nullptr) sum += bias->values[n];
      output[n] = static_cast<float>(sum);
    }
  }
}

void AddLowRank(const Step& step, StepRows rows, const FactorTable& table, const Tensor& x,
                Tensor& out) {
  BANYAN_CHECK(x.columns == table.columns && out.columns == table.rows && x.rows == out.rows);
  const std::vector<std::int32_t> variants = VariantsOf(step.batch, rows);
  BANYAN_CHECK(variants.empty() || static_cast<std::int64_t>(variants.size()) == x.rows);
  for (size_t r = 0; r < variants.size(); ++r) {
    const std::span<const float> input = Row(x, static_cast<std::int64_t>(r));
    const std::span<float> output = Row(out, static_cast<std::int64_t>(r));
    for (const LowRankFactors& factors : table.Of(variants[r])) {
      const FloatMatrix& a = AsFloats(*factors.a);
      const FloatMatrix& b = AsFloats(*factors.b);
      std::vector<double> inner(static_cast<size_t>(a.rows), 0.0);
      for (size_t k = 0; k < inner.size(); ++k) {
        const std::span<const float> weights = a.Row(static_cast<std::int64_t>(k));
        for (size_t c = 0; c < input.size(); ++c) inner[k] += double{input[c]} * weights[c];
        inner[k] *= factors.scale;
      }
      for (std::int64_t n = 0; n < b.rows; ++n) {
        double sum = 0.0;
        for (size_t k = 0; k < inner.size(); ++k) sum += inner[k] * b.Row(n)[k];
        float& value = output[static_cast<size_t>(factors.first_row + n)];
        value = static_cast<float>(value + sum);
      }
    }
  }
}

void Scale(float factor, Tensor& x) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (float& value : Row(x, r)) value *= factor;
  }
}

static double GateOf(Gate gate, double x) {
  if (gate == Gate::kSilu) return x / (1.0 + std::exp(-x));
  if (gate == Gate::kLogistic) return 1.0 / (1.0 + std::exp(-x));
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}

void Glu(Gate function, const Tensor& x, Tensor& out) {
  BANYAN_CHECK(x.rows == out.rows && x.columns == 2 * out.columns);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const std::span<const float> gate = Row(x, r).first(static_cast<size_t>(out.columns));
    const std::span<const float> up = Row(x, r).last(static_cast<size_t>(out.columns));
    for (size_t i = 0; i < gate.size(); ++i) {
      Row(out, r)[i] = static_cast<float>(GateOf(function, gate[i]) * up[i]);
    }
  }
}

void GateColumns(Gate function, const Tensor& gates, const Tensor& values, std::int64_t first,
                 Tensor& out) {
  BANYAN_CHECK(gates.rows == out.rows && gates.columns == out.columns);
  BANYAN_CHECK(values.rows == out.rows && first >= 0 && first + out.columns <= values.columns);
  for (std::int64_t r = 0; r < out.rows; ++r) {
    const std::span<const float> value = Row(values, r).subspan(static_cast<size_t>(first));
    for (size_t i = 0; i < static_cast<size_t>(out.columns); ++i) {
      Row(out, r)[i] = static_cast<float>(GateOf(function, Row(gates, r)[i]) * value[i]);
    }
  }
}

void GateRows(Gate function, const Tensor& gates, Tensor& x) {
  BANYAN_CHECK(gates.rows == x.rows && gates.columns == 1);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const double factor = GateOf(function, Row(gates, r)[0]);
    for (float& value : Row(x, r)) value = static_cast<float>(value * factor);
  }
}

void CopyColumns(const Tensor& x, const ColumnCopy& columns, Tensor& out) {
  for (std::int64_t row = 0; row < x.rows; ++row) {
    const auto count = static_cast<size_t>(columns.count);
    const std::span<const float> from = Row(x, row).subspan(static_cast<size_t>(columns.from));
    std::ranges::copy(from.first(count),
                      Row(out, row).subspan(static_cast<size_t>(columns.to)).begin());
  }
}

void Activate(Activation f, Tensor& x) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (float& value : Row(x, r)) {
      const double v = value;
      value = static_cast<float>(f == Activation::kGelu ? v * 0.5 * std::erfc(-v * std::sqrt(0.5))
                                                        : std::tanh(v));
    }
  }
}

void GatherLogitRows(const Step& step, const Tensor& x, Tensor& out) {
  BANYAN_CHECK(x.rows == step.rows && out.rows == step.logit_rows && x.columns == out.columns);
  for (int i = 0; i < step.logit_rows; ++i) {
    std::ranges::copy(Row(x, step.batch.logit_rows[i]), Row(out, i).begin());
  }
}

// --- Attention -----------------------------------------------------------------------------------

namespace {

// Rotates pairs (i, i + rotary_dim / 2) of the first rotary_dim values; the rest stays.
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
  const int stored = shape.stores ? shape.kv_heads : 0;
  const size_t key_size = stored * head_dim;
  BANYAN_CHECK(qkv.rows == view.step.rows);
  BANYAN_CHECK(static_cast<size_t>(qkv.columns) == query_size + 2 * key_size);
  const KvHeads kv_heads = {shape.kv_heads, shape.head_dim};
  BANYAN_CHECK(kv.shape.Of(view.layer) == kv_heads);
  for (int r = 0; r < view.step.rows; ++r) {
    const std::span<float> query = Row(qkv, r).first(query_size);
    const std::span<float> key = Row(qkv, r).subspan(query_size, key_size);
    const std::span<float> value = Row(qkv, r).last(key_size);
    NormalizeHeads(query, norm.query, norm, head_dim);
    NormalizeHeads(key, norm.key, norm, head_dim);
    QkNormWeights of_values = norm;
    of_values.whole = false;
    NormalizeHeads(value, norm.value, of_values, head_dim);
    if (shape.rope != kNoRope) {
      const StepRope& rope = view.step.ropes.at(static_cast<size_t>(shape.rope));
      for (int h = 0; h < shape.heads; ++h) {
        RotateHead(rope, r, query.subspan(h * head_dim, head_dim));
      }
      for (int h = 0; h < stored; ++h) {
        RotateHead(rope, r, key.subspan(h * head_dim, head_dim));
      }
      for (float& value : query) value *= rope.query_factors[static_cast<size_t>(r)];
    }
    for (int h = 0; h < stored; ++h) {
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

// --- Experts: one row and one expert at a time ---------------------------------------------------

namespace {

std::vector<double> Apply(const std::shared_ptr<const Matrix>& matrix,
                          const std::shared_ptr<const Vector>& bias, std::span<const float> x) {
  const FloatMatrix& w = AsFloats(*matrix);
  const FloatVector* added = bias == nullptr ? nullptr : &AsFloats(*bias);
  if (!w.codes.empty()) {
    std::vector<float> values(static_cast<size_t>(w.rows));
    MultiplyInt8(x, w, added, values);
    return {values.begin(), values.end()};
  }
  std::vector<double> out(static_cast<size_t>(w.rows), 0.0);
  for (size_t n = 0; n < out.size(); ++n) {
    const std::span<const float> weights = w.Row(static_cast<std::int64_t>(n));
    for (size_t k = 0; k < x.size(); ++k) out[n] += double{x[k]} * weights[k];
    if (added != nullptr) out[n] += added->values[n];
  }
  return out;
}

double Gated(const ExpertGate& gate, double g, double up) {
  if (gate.limit == 0.0f) return GateOf(gate.function, g) * up;
  g = std::min(g, double{gate.limit});
  up = std::clamp(up, -double{gate.limit}, double{gate.limit});
  return (up + 1.0) * g / (1.0 + std::exp(-gate.slope * g));
}

}  // namespace

// Rows are taken one by one: row r has the slots from (r - begin) * chosen on. Inner values are
// float32, as they pass from shard to shard.
void ExpertInner(const Tensor& x, const ExpertCall& call, ExpertRows rows, Tensor& inner) {
  BANYAN_CHECK(static_cast<size_t>(call.scores.columns) == call.table.experts.size());
  if (inner.columns == 0) return;
  std::vector<ExpertChoice> choices(static_cast<size_t>(call.rule.chosen));
  std::int64_t slot = 0;
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    ChooseExperts(Row(call.scores, r), call.rule, call.table.numbers, choices);
    for (const ExpertChoice& choice : choices) {
      const ExpertWeights& expert = call.table.experts[static_cast<size_t>(choice.expert)];
      const std::vector<double> halves = Apply(expert.gate_up, expert.gate_up_bias, Row(x, r));
      const std::span<float> gated = Row(inner, slot++);
      const size_t count = halves.size() / 2;
      for (size_t i = 0; i < count; ++i) {
        gated[i] = static_cast<float>(Gated(call.rule.gate, halves[i], halves[count + i]));
      }
    }
  }
}

void ExpertOutputs(const ExpertCall& call, ExpertRows rows, const Tensor& inner, Tensor& out) {
  std::vector<ExpertChoice> choices(static_cast<size_t>(call.rule.chosen));
  std::int64_t slot = 0;
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    ChooseExperts(Row(call.scores, r), call.rule, call.table.numbers, choices);
    std::vector<double> sum(static_cast<size_t>(out.columns), 0.0);
    for (const ExpertChoice& choice : choices) {
      const ExpertWeights& expert = call.table.experts[static_cast<size_t>(choice.expert)];
      const std::vector<double> part = Apply(expert.down, expert.down_bias, Row(inner, slot++));
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += double{choice.share} * part[i];
    }
    std::ranges::transform(sum, Row(out, r).begin(),
                           [](double value) { return static_cast<float>(value); });
  }
}

void MixExperts(const Tensor& x, const ExpertCall& call, Tensor& out) {
  BANYAN_CHECK(x.rows == out.rows && x.columns == out.columns && call.scores.rows == x.rows);
  const std::int64_t chunk = call.scratch.inner.rows / call.rule.chosen;
  BANYAN_CHECK(chunk > 0 || x.rows == 0);
  for (std::int64_t begin = 0; begin < x.rows; begin += chunk) {
    const ExpertRows rows{begin, std::min(begin + chunk, x.rows)};
    Tensor inner = call.scratch.inner;
    ExpertInner(x, call, rows, inner);
    ExpertOutputs(call, rows, inner, out);
  }
}

}  // namespace banyan::reference
