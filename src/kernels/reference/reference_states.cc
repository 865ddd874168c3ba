#include "kernels/reference/reference_states.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"

namespace banyan::reference {
namespace {

// The state before the run, copied to where the run changes it.
void Begin(const StateRun& run, std::int64_t floats, const float* from, float* to) {
  if (run.from < 0) {
    std::fill_n(to, floats, 0.0f);
  } else if (run.from != run.to) {
    std::copy_n(from, floats, to);
  }
}

float InputOf(const ConvolutionCall& call, std::span<const float> x, int channel) {
  const float value = x[static_cast<size_t>(call.first_column + channel)];
  return call.gate_in < 0 ? value : value * x[static_cast<size_t>(call.gate_in + channel)];
}

// One token: `window` is [taps - 1, channels].
void ConvolveRow(const ConvolutionCall& call, std::span<const float> x, float* window,
                 std::span<float> out) {
  const StateShape& shape = call.shape;
  const auto channels = static_cast<size_t>(shape.channels);
  const auto before = static_cast<size_t>(shape.taps - 1);
  const std::vector<float>& taps = AsFloats(call.taps).values;
  for (size_t c = 0; c < channels; ++c) {
    const float newest = InputOf(call, x, static_cast<int>(c));
    double sum = call.bias == nullptr ? 0.0 : AsFloats(*call.bias).values[c];
    for (size_t i = 0; i < before; ++i) {
      sum += static_cast<double>(taps[i * channels + c]) * window[i * channels + c];
    }
    sum += static_cast<double>(taps[before * channels + c]) * newest;
    if (call.silu) sum /= 1.0 + std::exp(-sum);
    if (call.gate_out >= 0) sum *= x[static_cast<size_t>(call.gate_out) + c];
    out[c] = static_cast<float>(sum);
    for (size_t i = 0; i + 1 < before; ++i) {
      window[i * channels + c] = window[(i + 1) * channels + c];
    }
    if (before > 0) window[(before - 1) * channels + c] = newest;
  }
}

// Where a head's vectors stand in a row of ScanCall::mixed.
struct HeadColumns {
  HeadColumns(const StateShape& shape, int head) {
    const int key_head = shape.KeyHeadOf(head);
    const int keys_size = shape.key_heads * shape.key_dim;
    const int own_key = key_head * shape.key_dim, own_value = head * shape.value_dim;
    if (shape.rule == StateRule::kDelta) {
      query = own_key;
      key = keys_size + own_key;
      value = 2 * keys_size + own_value;
    } else {
      value = own_value;
      key = shape.values() + own_key;
      query = shape.values() + keys_size + own_key;
    }
  }
  int key = 0, query = 0, value = 0;
};

std::vector<double> Part(std::span<const float> row, int first, int count) {
  const auto part = row.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  return {part.begin(), part.end()};
}

void Normalize(std::vector<double>& x, double scale) {
  double sum = 0.0;
  for (const double value : x) sum += value * value;
  for (double& value : x) value *= scale / std::sqrt(sum + kKeyNormEps);
}

// One token of one head. The matrix is rounded to float32 after every token, so that cutting a path
// changes nothing.
void ScanRow(const ScanCall& call, int head, std::span<const float> mixed,
             const TokenFactors& factors, const HostStates& states, float* matrix,
             std::span<float> out) {
  const StateShape& shape = call.shape;
  const HeadColumns columns(shape, head);
  const bool delta = shape.rule == StateRule::kDelta;
  std::vector<double> key = Part(mixed, columns.key, shape.key_dim);
  std::vector<double> query = Part(mixed, columns.query, shape.key_dim);
  if (delta) {
    Normalize(key, 1.0);
    Normalize(query, 1.0 / std::sqrt(static_cast<double>(shape.key_dim)));
  }
  for (int v = 0; v < shape.value_dim; ++v) {
    const auto at = [&](size_t k) -> float& { return matrix[states.At(static_cast<int>(k), v)]; };
    const double value = mixed[static_cast<size_t>(columns.value + v)];
    double there = 0.0;
    for (size_t k = 0; delta && k < key.size(); ++k) there += at(k) * factors.decay * key[k];
    const double added = factors.strength * (value - there);
    double sum = 0.0;
    for (size_t k = 0; k < key.size(); ++k) {
      at(k) = static_cast<float>(double{at(k)} * factors.decay + key[k] * added);
      sum += at(k) * query[k];
    }
    if (call.skip != nullptr) sum += AsFloats(*call.skip).values[static_cast<size_t>(head)] * value;
    out[static_cast<size_t>(v)] = static_cast<float>(sum);
  }
}

}  // namespace

void Convolve(const Step& step, const ConvolutionCall& call, HostStates& states, Tensor& out) {
  BANYAN_CHECK(out.columns == call.shape.channels && out.rows == step.rows);
  for (const StateRun& run : step.batch.states) {
    float* const window = states.Window(run.to, call.layer);
    Begin(run, states.window_floats(), run.from < 0 ? nullptr : states.Window(run.from, call.layer),
          window);
    for (std::int32_t r = run.row_begin; r < run.row_end; ++r) {
      ConvolveRow(call, Row(call.x, r), window, Row(out, r));
    }
  }
}

void Scan(const Step& step, const ScanCall& call, HostStates& states, Tensor& out) {
  const StateShape& shape = call.shape;
  BANYAN_CHECK(out.columns == shape.values() && out.rows == step.rows);
  const auto value_dim = static_cast<size_t>(shape.value_dim);
  for (const StateRun& run : step.batch.states) {
    for (int head = 0; head < shape.heads; ++head) {
      const auto h = static_cast<size_t>(head);
      float* const matrix = states.Matrix(run.to, call.layer, head);
      Begin(run, states.matrix_floats(),
            run.from < 0 ? nullptr : states.Matrix(run.from, call.layer, head), matrix);
      const float bias = AsFloats(call.step_bias).values[h];
      for (std::int32_t r = run.row_begin; r < run.row_end; ++r) {
        const std::span<const float> inputs = Row(call.inputs, r);
        const TokenFactors factors =
            FactorsOf(call, AsFloats(call.rates).values[h],
                      inputs[static_cast<size_t>(call.step_column) + h] + bias,
                      inputs[static_cast<size_t>(call.strength_column) + h]);
        ScanRow(call, head, Row(call.mixed, r), factors, states, matrix,
                Row(out, r).subspan(h * value_dim, value_dim));
      }
    }
  }
}

}  // namespace banyan::reference
