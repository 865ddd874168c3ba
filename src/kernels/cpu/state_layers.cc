#include "kernels/cpu/state_layers.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "kernels/cpu/cpu_kernels.h"

namespace banyan {
namespace {

constexpr std::int64_t kChannelsTogether = 128;
constexpr std::int64_t kRowsTogether = 32;  // of a head, whose matrix stays in a near cache

std::int64_t PaddedValues(const StateShape& shape) {
  return (shape.value_dim + HostStates::kTile - 1) / HostStates::kTile * HostStates::kTile;
}

// Columns of ScanCall::mixed.
struct HeadColumns {
  std::int64_t key, query, value;
};

HeadColumns ColumnsOf(const StateShape& shape, int head) {
  const std::int64_t key_head = shape.KeyHeadOf(head);
  const std::int64_t own_key = key_head * shape.key_dim;
  const std::int64_t own_value = std::int64_t{head} * shape.value_dim;
  const std::int64_t keys = std::int64_t{shape.key_heads} * shape.key_dim;
  if (shape.rule == StateRule::kDelta) return {keys + own_key, own_key, 2 * keys + own_value};
  return {shape.values() + own_key, shape.values() + keys + own_key, own_value};
}

// The state before the run, copied to where the run changes it.
void Begin(const float* from, std::int64_t floats, float* to) {
  if (from == nullptr) {
    std::fill_n(to, floats, 0.0f);
  } else if (from != to) {
    std::copy_n(from, floats, to);
  }
}

}  // namespace

void StateLayers::Convolve(const Batch& batch, const ConvolutionCall& call, HostStates& states,
                           Tensor& out) {
  BANYAN_CHECK(out.columns == call.shape.channels && call.shape.taps <= kMostTaps);
  const std::int64_t channels = call.shape.channels;
  pool_.ForEach((channels + kChannelsTogether - 1) / kChannelsTogether, [&](std::int64_t i, int) {
    const Channels part{i * kChannelsTogether, std::min((i + 1) * kChannelsTogether, channels)};
    for (const StateRun& run : batch.states) ConvolveRun(run, call, part, states, out);
  });
}

void StateLayers::ConvolveRun(const StateRun& run, const ConvolutionCall& call,
                              const Channels& channels, HostStates& states, Tensor& out) const {
  static constexpr std::array<float, kChannelsTogether> kOnes = [] {
    std::array<float, kChannelsTogether> ones{};
    ones.fill(1.0f);
    return ones;
  }();
  const StateShape& shape = call.shape;
  const std::int64_t first = channels.begin, count = channels.end - channels.begin;
  const auto before = static_cast<size_t>(shape.taps - 1);
  float memory[kMostTaps][kChannelsTogether];
  std::array<float*, kMostTaps> inputs{};  // oldest first
  for (size_t i = 0; i <= before; ++i) inputs[i] = memory[i];
  const float* const from = run.from < 0 ? nullptr : states.Window(run.from, call.layer);
  for (size_t i = 0; i < before; ++i) {
    const float* const row =
        from == nullptr ? nullptr : from + static_cast<std::int64_t>(i) * shape.channels + first;
    Begin(row, count, inputs[i]);
  }
  ConvolvedToken token;
  token.inputs = inputs.data();
  token.taps = Values(call.taps) + first;
  token.taps_stride = shape.channels;
  token.tap_count = shape.taps;
  token.bias = call.bias == nullptr ? nullptr : Values(*call.bias) + first;
  token.channels = static_cast<int>(count);
  for (std::int64_t r = run.row_begin; r < run.row_end; ++r) {
    const float* const x = Row(call.x, r);
    float* const newest = inputs[before];
    std::copy_n(x + call.first_column + first, count, newest);
    if (call.gate_in >= 0) {
      const float* const gate = x + call.gate_in + first;
      for (std::int64_t c = 0; c < count; ++c) newest[c] *= gate[c];
    }
    token.out = Row(out, r) + first;
    vector_.convolve(token);
    if (call.silu) vector_.swiglu(token.out, kOnes.data(), count, token.out);
    if (call.gate_out >= 0) {
      const float* const gate = x + call.gate_out + first;
      for (std::int64_t c = 0; c < count; ++c) token.out[c] *= gate[c];
    }
    std::rotate(inputs.begin(), inputs.begin() + 1,
                inputs.begin() + static_cast<std::ptrdiff_t>(before) + 1);
  }
  float* const to = states.Window(run.to, call.layer);
  for (size_t i = 0; i < before; ++i) {
    std::copy_n(inputs[i], count, to + static_cast<std::int64_t>(i) * shape.channels + first);
  }
}

void StateLayers::Scan(const Batch& batch, const ScanCall& call, HostStates& states, Tensor& out) {
  const StateShape& shape = call.shape;
  BANYAN_CHECK(out.columns == shape.values() && call.mixed.columns == shape.channels);
  const auto key_dim = static_cast<size_t>(shape.key_dim);
  const float root = 1.0f / std::sqrt(static_cast<float>(shape.key_dim));
  key_weight_.assign(key_dim, root);
  query_weight_.assign(key_dim, root * root);
  pool_.ForEach(shape.heads, [&](std::int64_t head, int worker) {
    Scratch& scratch = scratch_[static_cast<size_t>(worker)];
    scratch.keys.resize(kRowsTogether * key_dim);
    scratch.queries.resize(kRowsTogether * key_dim);
    scratch.values.resize(static_cast<size_t>(kRowsTogether * PaddedValues(shape)));
    scratch.out.resize(scratch.values.size());
    scratch.decays.resize(kRowsTogether);
    scratch.strengths.resize(kRowsTogether);
    for (const StateRun& run : batch.states) {
      ScanRun(run, call, static_cast<int>(head), states, scratch, out);
    }
  });
}

void StateLayers::ScanRun(const StateRun& run, const ScanCall& call, int head, HostStates& states,
                          Scratch& scratch, Tensor& out) const {
  const StateShape& shape = call.shape;
  ScannedHead scanned;
  scanned.matrix = states.Matrix(run.to, call.layer, head);
  scanned.key_dim = shape.key_dim;
  scanned.stride = PaddedValues(shape);
  scanned.tiles = static_cast<int>(scanned.stride / HostStates::kTile);
  scanned.keys = scratch.keys.data();
  scanned.queries = scratch.queries.data();
  scanned.values = scratch.values.data();
  scanned.decays = scratch.decays.data();
  scanned.strengths = scratch.strengths.data();
  scanned.delta = shape.rule == StateRule::kDelta;
  scanned.out = scratch.out.data();
  Begin(run.from < 0 ? nullptr : states.Matrix(run.from, call.layer, head), states.matrix_floats(),
        scanned.matrix);
  const std::int64_t first_value = std::int64_t{head} * shape.value_dim;
  for (std::int64_t begin = run.row_begin; begin < run.row_end; begin += kRowsTogether) {
    const std::int64_t rows = std::min<std::int64_t>(kRowsTogether, run.row_end - begin);
    for (std::int64_t i = 0; i < rows; ++i) Gather(call, head, begin + i, i, scratch);
    scanned.rows = static_cast<int>(rows);
    vector_.scan(scanned);
    for (std::int64_t i = 0; i < rows; ++i) {
      float* const to = Row(out, begin + i) + first_value;
      std::copy_n(scanned.out + i * scanned.stride, shape.value_dim, to);
      if (call.skip == nullptr) continue;
      const float skip = Values(*call.skip)[head];
      const float* const value = scanned.values + i * scanned.stride;
      for (int v = 0; v < shape.value_dim; ++v) to[v] += skip * value[v];
    }
  }
}

// Row `index` of the scratch memory is the head's part of a row.
void StateLayers::Gather(const ScanCall& call, int head, std::int64_t row, std::int64_t index,
                         Scratch& scratch) const {
  const StateShape& shape = call.shape;
  const HeadColumns columns = ColumnsOf(shape, head);
  const float* const mixed = Row(call.mixed, row);
  float* const key = scratch.keys.data() + index * shape.key_dim;
  float* const query = scratch.queries.data() + index * shape.key_dim;
  if (shape.rule == StateRule::kDelta) {
    // A norm of length 1 is one of the mean square, divided by the root of the size.
    const float eps = kKeyNormEps / static_cast<float>(shape.key_dim);
    vector_.rms_norm(mixed + columns.key, key_weight_.data(), shape.key_dim, eps, key);
    vector_.rms_norm(mixed + columns.query, query_weight_.data(), shape.key_dim, eps, query);
  } else {
    std::copy_n(mixed + columns.key, shape.key_dim, key);
    std::copy_n(mixed + columns.query, shape.key_dim, query);
  }
  const std::int64_t padded = PaddedValues(shape);
  float* const value = scratch.values.data() + index * padded;
  std::copy_n(mixed + columns.value, shape.value_dim, value);
  std::fill(value + shape.value_dim, value + padded, 0.0f);
  const float* const inputs = Row(call.inputs, row);
  const TokenFactors factors =
      FactorsOf(call, Values(call.rates)[head],
                inputs[call.step_column + head] + Values(call.step_bias)[head],
                inputs[call.strength_column + head]);
  scratch.decays[static_cast<size_t>(index)] = factors.decay;
  scratch.strengths[static_cast<size_t>(index)] = factors.strength;
}

}  // namespace banyan
