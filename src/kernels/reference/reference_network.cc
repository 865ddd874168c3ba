#include "kernels/reference/reference_network.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "kernels/int8.h"
#include "tensor/float16.h"

namespace banyan::reference {

void Embed(const Step& step, const FloatMatrix& table, Tensor& out) {
  BANYAN_CHECK(out.rows == step.rows && out.columns == table.columns);
  for (int r = 0; r < step.rows; ++r) {
    std::ranges::copy(table.Row(step.batch.tokens[r]), Row(out, r).begin());
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

// The codes of a row's bf16 values; its scale.
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

void MultiplyInt8(const Tensor& x, const FloatMatrix& w, const FloatVector* bias, Tensor& out) {
  std::vector<std::int8_t> codes(static_cast<size_t>(w.columns));
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const float row_scale = QuantizeRow(Row(x, r), codes);
    const std::span<float> output = Row(out, r);
    for (size_t n = 0; n < output.size(); ++n) {
      const std::int8_t* weights = w.codes.data() + n * codes.size();
      std::int32_t sum = 0;
      for (size_t k = 0; k < codes.size(); ++k) sum += std::int32_t{codes[k]} * weights[k];
      output[n] = DequantizeSum(sum, row_scale, w.scales[n]);
      if (bias != nullptr) output[n] += bias->values[n];
    }
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
  if (!w.codes.empty()) return MultiplyInt8(x, w, bias, out);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const std::span<const float> input = Row(x, r);
    const std::span<float> output = Row(out, r);
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

}  // namespace banyan::reference
