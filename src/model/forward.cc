#include "model/forward.h"

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include <features.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "model/rope.h"

namespace banyan {

AttentionShape ShapeOfLayer(const ModelConfig& config, int layer) {
  const LayerAttention& attention = config.attention[static_cast<size_t>(layer)];
  const KvHeads keys = config.KeysOf(layer);
  AttentionShape shape{config.heads,           keys.heads,    keys.dim, attention.window,
                       config.attention_scale, attention.rope};
  shape.stores = config.HasKeys(layer);
  return shape;
}

std::int64_t ExpertStretch(const Kernels& kernels) {
  constexpr std::int64_t kRowsOnDevice = 2048;
  return kernels.asynchronous() ? kRowsOnDevice : kExpertRows;
}

TensorGroup ExpertTensorsFor(const ModelConfig& config, std::int64_t rows, std::int64_t chunk) {
  const ExpertsConfig& experts = config.experts;
  if (experts.count == 0) return {};
  const std::int64_t slots = std::min(rows, chunk) * experts.rule.chosen;
  return {{rows, experts.count},
          {slots, config.hidden_size},
          {slots, 2 * std::int64_t{experts.inner_size}},
          {slots, experts.inner_size},
          {slots, config.hidden_size}};
}

ForwardPass::ForwardPass(const ModelConfig& config, const ModelWeights& weights, Kernels& kernels,
                         int max_rows, int max_logit_rows)
    : config_(config),
      weights_(weights),
      kernels_(kernels),
      max_rows_(max_rows),
      recorder_(kernels.NewRecorder()) {
  std::vector<RopeTable> ropes;
  for (const RopeConfig& rope : config.ropes) {
    ropes.push_back(MakeRopeTable(rope, config.context_length));
  }
  kernels.SetRopes(ropes);
  std::int64_t attended = 0, qkv = 0, ffn = 0, state_inputs = 0;  // of the widest layer
  for (int layer = 0; layer < config.layers; ++layer) {
    const LayerWeights& w = weights.layers[static_cast<size_t>(layer)];
    attended = std::max(attended, w.output->columns);
    if (w.qkv) qkv = std::max(qkv, w.qkv->rows);
    if (w.state) state_inputs = std::max(state_inputs, w.state->input->rows);
    ffn = std::max(ffn, std::int64_t{config.FfnSize(layer)});
    kv_layers_.push_back(config.HasState(layer) ? -1 : KvLayerOf(config, layer));
    state_layers_.push_back(StateLayersBefore(config, layer));
    if (config.HasKeys(layer) || config.HasState(layer)) last_that_stores_ = layer;
  }
  const StateShape& state = config.states.shape;
  const std::int64_t channels = config.states.any() ? state.channels : 0;
  const std::int64_t state_values = config.states.any() ? state.values() : 0;
  const std::int64_t rows = max_rows, hidden = config.hidden_size;
  x_ = kernels.NewTensor(rows, hidden);
  chosen_ = kernels.NewTensor(max_logit_rows, hidden);
  // What a block reads is not needed when it adds to x.
  const std::vector<TensorGroup> around = {{{rows, hidden}}, {{rows, hidden}}};
  const auto sides = kernels.NewTensorGroups(around);
  normed_ = sides[0][0];
  delta_ = sides[1][0];
  // What lies within a block is not needed in the next one, nor with the logits.
  const std::vector<TensorGroup> within = {
      {{rows, qkv},
       {rows, attended},
       {max_logit_rows, attended},
       {rows, state_inputs},
       {rows, channels},
       {rows, state_values},
       {rows, config.output_gate ? attended : 0}},
      {{rows, 2 * ffn}, {rows, ffn}},
      {{max_logit_rows, config.vocab_size}},
      ExpertTensorsFor(config, rows, ExpertStretch(kernels)),
      {{rows, config.layer_input_size}},
  };
  const auto blocks = kernels.NewTensorGroups(within);
  qkv_ = blocks[0][0];
  attended_ = blocks[0][1];
  chosen_attended_ = blocks[0][2];
  state_inputs_ = blocks[0][3];
  state_mixed_ = blocks[0][4];
  state_gates_ = blocks[0][5];
  output_gates_ = blocks[0][6];
  gate_up_ = blocks[1][0];
  inner_ = blocks[1][1];
  logits_ = blocks[2][0];
  if (config.experts.count > 0) {
    scores_ = blocks[3][0];
    expert_scratch_ = {blocks[3][1], blocks[3][2], blocks[3][3], blocks[3][4]};
  }
  if (config.experts.HasBlockBeside()) mixed_ = kernels.NewTensor(rows, hidden);
  if (config.layer_input_size > 0) {
    const std::int64_t inputs = std::int64_t{config.layers} * config.layer_input_size;
    input_gates_ = blocks[4][0];
    layer_inputs_ = kernels.NewTensor(rows, inputs);
    projected_ = kernels.NewTensor(rows, inputs);
    chosen_inputs_ = kernels.NewTensor(max_logit_rows, inputs);
  }
  if (config.experts.beside == BlockBeside::kGated) block_gates_ = kernels.NewTensor(rows, 1);
  if (weights.ranks > 0) ranks_ = kernels.NewTensor(max_rows, weights.ranks);
}

Tensor ForwardPass::Run(const Batch& batch, const AttentionPlan& plan, KvMemory& kv,
                        const ForwardOptions& options) {
  BANYAN_CHECK(batch.rows() <= max_rows_);
  const auto logit_rows = static_cast<std::int64_t>(batch.logit_rows.size());
  BANYAN_CHECK(logit_rows <= logits_.rows && logit_rows <= max_rows_);  // rows may be named twice
  kernels_.Upload(batch, plan, options.earlier, step_);
  const StepInputs& step = *step_;
  const auto compute = [&] { Compute(step, kv, options); };
  if (options.replay) {
    const int variant = (options.skip_attention ? 1 : 0) + (step.adapted ? 2 : 0) +
                        (step.all_adapted ? 4 : 0) + (options.only_choices ? 8 : 0);
    recorder_->Run(step, kv, variant, std::cref(compute));  // a reference needs no memory
  } else {
    compute();
  }
  return logits_.Prefix(step.logit_rows);
}

// Every row's keys and values are stored, in the last layer too, and its state goes on; what comes
// after them there is computed for the rows whose logits are wanted, and not at all where there are
// none.
void ForwardPass::Compute(const StepInputs& step, KvMemory& kv, const ForwardOptions& options) {
  Tensor x = x_.Prefix(step.rows);
  kernels_.Embed(step, *weights_.embedding, x);
  if (config_.embedding_scale != 1.0f) kernels_.Scale(config_.embedding_scale, x);
  if (config_.layer_input_size > 0) ComputeLayerInputs(step, x);
  Tensor inputs = layer_inputs_.Prefix(step.rows);
  for (int layer = 0; layer < config_.layers; ++layer) {
    const bool last = layer + 1 == config_.layers;
    Tensor attended;
    if (config_.HasState(layer)) {
      attended = MixStates(layer, step, x, *kv.states, options.skip_attention);
      if (layer == last_that_stores_ && step.logit_rows == 0) return;
    } else {
      const Tensor qkv = ProjectAndStore(layer, step, kv, x);
      if (layer == last_that_stores_ && step.logit_rows == 0) return;
      attended = Attend(layer, step, kv, options.skip_attention, qkv);
      const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
      const Tensor& input = w.attention_norm ? normed_.Prefix(x.rows) : x;
      if (w.output_gate) GateAttended(w, step, input, attended);
    }
    const LowRankRows adapted{step, last ? StepRows::kLogits : StepRows::kAll};
    if (last) {
      x = LogitRows(step, x, chosen_);
      attended = LogitRows(step, attended,
                           chosen_attended_.Narrow(chosen_attended_.rows, attended.columns));
      if (config_.layer_input_size > 0) inputs = LogitRows(step, inputs, chosen_inputs_);
    }
    AddAttended(layer, adapted, attended, x);
    FeedForward(layer, adapted, x);
    if (config_.layer_input_size > 0) AddLayerInput(layer, inputs, adapted, x);
    if (config_.layer_scales) {
      kernels_.Scale(weights_.layers[static_cast<size_t>(layer)].scale, x);
    }
  }
  Tensor normed = normed_.Prefix(step.logit_rows);
  kernels_.RmsNorm(x, *weights_.final_norm, config_.rms_eps, normed);
  if (options.only_choices) return;
  Tensor logits = logits_.Prefix(step.logit_rows);
  kernels_.MatMul(normed, *weights_.logits, nullptr, logits);
  AddMore(weights_.logits_more, {step, StepRows::kLogits}, normed, logits);
  if (config_.logit_cap > 0.0f) {
    kernels_.Scale(1.0f / config_.logit_cap, logits);
    kernels_.Activate(Activation::kTanh, logits);
    kernels_.Scale(config_.logit_cap, logits);
  }
}

void ForwardPass::Choose(std::span<const SamplingRow> requests,
                         std::unique_ptr<PendingChoices>& choices) {
  Tensor logits = logits_.Prefix(step_->logit_rows);
  kernels_.MatMulChoose(normed_.Prefix(step_->logit_rows), *weights_.logits, logits, requests,
                        choices);
}

// A device records the product with the rest of the step.
bool ForwardPass::can_only_choose() const {
  return !kernels_.asynchronous() && weights_.logits_more == nullptr && config_.logit_cap == 0.0f;
}

LowRankCall ForwardPass::CallOf(const LowRankRef& more, const LowRankRows& adapted,
                                const Tensor& x) const {
  return {adapted.step, adapted.rows, *more, ranks_.Prefix(x.rows)};
}

void ForwardPass::AddMore(const LowRankRef& more, const LowRankRows& adapted, const Tensor& x,
                          Tensor& out) {
  if (more == nullptr || !adapted.step.adapted) return;
  kernels_.AddLowRank(CallOf(more, adapted, x), x, out);
}

Tensor ForwardPass::LogitRows(const StepInputs& step, const Tensor& rows, const Tensor& memory) {
  Tensor chosen = memory.Prefix(step.logit_rows);
  kernels_.GatherLogitRows(step, rows, chosen);
  return chosen;
}

// qkv(norm(x)), rotated; K and V go to `kv`. Without a norm before the block: qkv(x).
Tensor ForwardPass::ProjectAndStore(int layer, const StepInputs& step, KvMemory& kv,
                                    const Tensor& x) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const QkNormWeights qk_norm{w.query_norm.get(), w.key_norm.get(), w.value_norm.get(),
                              config_.qk_norm == QkNorm::kWhole, config_.rms_eps};
  Tensor normed = normed_.Prefix(x.rows);
  Tensor qkv = qkv_.Narrow(x.rows, w.qkv->rows);
  if (w.attention_norm) kernels_.RmsNorm(x, *w.attention_norm, config_.rms_eps, normed);
  const Tensor& input = w.attention_norm ? normed : x;
  kernels_.MatMul(input, *w.qkv, w.qkv_bias.get(), qkv);
  AddMore(w.qkv_more, {step}, input, qkv);
  const int kv_layer = kv_layers_[static_cast<size_t>(layer)];
  kernels_.RotateAndStore(step, kv_layer, ShapeOf(layer), qk_norm, qkv, kv);
  return qkv;
}

Tensor ForwardPass::Attend(int layer, const StepInputs& step, const KvMemory& kv, bool skip,
                           const Tensor& qkv) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  Tensor attended = attended_.Narrow(qkv.rows, w.output->columns);
  if (skip) {
    kernels_.Clear(attended);
  } else {
    const int kv_layer = kv_layers_[static_cast<size_t>(layer)];
    kernels_.Attend(step, kv_layer, ShapeOf(layer), qkv, kv, attended);
  }
  return attended;
}

// x += W input, or with a norm after the block: x += norm(W input).
void ForwardPass::AddToResidual(const AddedProduct& product, const LowRankRows& adapted,
                                const Tensor& input, Tensor& x) {
  Tensor delta = delta_.Prefix(x.rows);
  if (product.norm == nullptr && config_.residual_scale == 1.0f) {
    kernels_.MatMulAdd(input, product.w, product.bias, delta, x);
    AddMore(product.more, adapted, input, x);
    return;
  }
  kernels_.MatMul(input, product.w, product.bias, delta);
  AddMore(product.more, adapted, input, delta);
  AddDelta(product.norm, delta, x);
}

void ForwardPass::AddDelta(const Vector* norm, Tensor& delta, Tensor& x) {
  if (norm != nullptr) kernels_.RmsNorm(delta, *norm, config_.rms_eps, delta);
  if (config_.residual_scale != 1.0f) kernels_.Scale(config_.residual_scale, delta);
  kernels_.Add(delta, x);
}

AttentionShape ForwardPass::ShapeOf(int layer) const {
  AttentionShape shape = ShapeOfLayer(config_, layer);
  shape.sinks = weights_.layers[static_cast<size_t>(layer)].sinks.get();
  return shape;
}

void ForwardPass::GateAttended(const LayerWeights& w, const StepInputs& step, const Tensor& input,
                               Tensor& attended) {
  Tensor gates = output_gates_.Narrow(attended.rows, attended.columns);
  kernels_.MatMul(input, *w.output_gate, w.output_gate_bias.get(), gates);
  AddMore(w.output_gate_more, {step}, input, gates);
  kernels_.GateColumns(Gate::kLogistic, gates, attended, 0, attended);
}

Tensor ForwardPass::MixStates(int layer, const StepInputs& step, const Tensor& x,
                              StateMemory& states, bool skip) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const StateShape& shape = config_.states.shape;
  Tensor normed = normed_.Prefix(x.rows);
  if (w.attention_norm) kernels_.RmsNorm(x, *w.attention_norm, config_.rms_eps, normed);
  const Tensor& input = w.attention_norm ? normed : x;
  Tensor mixed = attended_.Narrow(x.rows, w.output->columns);
  if (skip) {
    kernels_.Clear(mixed);
    return mixed;
  }
  Tensor inputs = state_inputs_.Narrow(x.rows, w.state->input->rows);
  kernels_.MatMul(input, *w.state->input, w.state->input_bias.get(), inputs);
  AddMore(w.state->input_more, {step}, input, inputs);
  if (shape.rule != StateRule::kConvolution) return ScanHeads(layer, step, inputs, input, states);
  ConvolutionCall call{shape, state_layers_[static_cast<size_t>(layer)], inputs, *w.state->taps};
  call.bias = w.state->taps_bias.get();
  call.gate_in = 0;
  call.gate_out = shape.channels;
  call.first_column = 2 * shape.channels;
  kernels_.Convolve(step, call, states, mixed);
  return mixed;
}

Tensor ForwardPass::ScanHeads(int layer, const StepInputs& step, const Tensor& inputs,
                              const Tensor& input, StateMemory& states) {
  const LayerWeights& layer_weights = weights_.layers[static_cast<size_t>(layer)];
  const StateWeights& w = *layer_weights.state;
  const StateShape& shape = config_.states.shape;
  const int place = state_layers_[static_cast<size_t>(layer)];
  Tensor convolved = state_mixed_.Prefix(inputs.rows);
  ConvolutionCall convolution{shape, place, inputs, *w.taps};
  convolution.bias = w.taps_bias.get();
  convolution.silu = true;
  kernels_.Convolve(step, convolution, states, convolved);
  ScanCall scan{.shape = shape,
                .layer = place,
                .mixed = convolved,
                .inputs = inputs,
                .rates = *w.rates,
                .step_bias = *w.step_bias};
  scan.step_column = shape.channels;
  scan.skip = w.skip.get();
  scan.least_step = config_.states.least_step;
  scan.most_step = config_.states.most_step;
  const bool delta = shape.rule == StateRule::kDelta;
  if (delta) scan.strength_column = shape.channels + shape.heads;
  Tensor out = attended_.Narrow(inputs.rows, shape.values());
  kernels_.Scan(step, scan, states, out);
  Tensor gates = state_gates_.Prefix(inputs.rows);
  kernels_.MatMul(input, *w.gate, w.gate_bias.get(), gates);
  AddMore(w.gate_more, {step}, input, gates);
  // Of a head with the delta rule, with Mamba-2 of the heads that share a key head.
  const std::int64_t group = delta ? shape.value_dim : shape.values() / shape.key_heads;
  kernels_.GateAndNorm({gates, Gate::kSilu, *w.norm, group, config_.rms_eps, delta}, out);
  return out;
}

void ForwardPass::AddAttended(int layer, const LowRankRows& adapted, const Tensor& attended,
                              Tensor& x) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  AddToResidual({*w.output, w.output_bias.get(), w.output_more, w.attended_norm.get()}, adapted,
                attended, x);
}

Tensor ForwardPass::InnerOf(int layer, const LowRankRows& adapted, const Tensor& input) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  Tensor gate_up = gate_up_.Narrow(input.rows, w.gate_up->rows);
  Tensor inner = inner_.Narrow(input.rows, w.down->columns);
  const GatedProduct product{*w.gate_up, w.gate_up_bias.get(), config_.gate};
  if (w.gate_up_more == nullptr || !adapted.step.adapted) {
    kernels_.MatMulGlu(input, product, gate_up, inner);
  } else {
    kernels_.AdaptedGlu(input, product, CallOf(w.gate_up_more, adapted, input), gate_up, inner);
  }
  return inner;
}

// x += W_down (gate(W_gate x) * W_up x), norms as above.
void ForwardPass::FeedForward(int layer, const LowRankRows& adapted, Tensor& x) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  Tensor normed = normed_.Prefix(x.rows);
  if (w.ffn_norm) kernels_.RmsNorm(x, *w.ffn_norm, config_.rms_eps, normed);
  const Tensor& input = w.ffn_norm ? normed : x;
  if (w.experts != nullptr && config_.experts.beside == BlockBeside::kNormed) {
    return AddBoth(layer, adapted, input, x);
  }
  if (w.experts != nullptr && config_.experts.HasBlockBeside()) {
    return AddExpertsAndBlock(layer, adapted, input, x);
  }
  if (w.experts != nullptr) return AddExperts(w, input, x);
  const Tensor inner = InnerOf(layer, adapted, input);
  AddToResidual({*w.down, w.down_bias.get(), w.down_more, w.fed_norm.get()}, adapted, inner, x);
}

// x += sum of the shares of the experts that the router chooses.
void ForwardPass::AddExperts(const LayerWeights& w, const Tensor& input, Tensor& x) {
  Tensor scores = scores_.Prefix(x.rows), delta = delta_.Prefix(x.rows);
  kernels_.MatMul(input, *w.router, w.router_bias.get(), scores);
  kernels_.MixExperts(input, {*w.experts, scores, config_.experts.rule, expert_scratch_}, delta);
  AddDelta(w.fed_norm.get(), delta, x);
}

void ForwardPass::AddBoth(int layer, const LowRankRows& adapted, const Tensor& input, Tensor& x) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const float eps = config_.rms_eps;
  Tensor delta = delta_.Prefix(x.rows);
  {
    const Tensor inner = InnerOf(layer, adapted, input);
    kernels_.MatMul(inner, *w.down, w.down_bias.get(), delta);
    AddMore(w.down_more, adapted, inner, delta);
    kernels_.RmsNorm(delta, *w.block_fed_norm, eps, delta);
  }
  // What lies within the block is not needed any more; what it adds is.
  Tensor mixed = mixed_.Prefix(x.rows), scores = scores_.Prefix(x.rows);
  kernels_.RmsNorm(x, *w.router_norm, eps, mixed);
  kernels_.MatMul(mixed, *w.router, nullptr, scores);
  kernels_.RmsNorm(x, *w.experts_norm, eps, mixed);
  kernels_.MixExperts(mixed, {*w.experts, scores, config_.experts.rule, expert_scratch_}, mixed);
  kernels_.RmsNorm(mixed, *w.experts_fed_norm, eps, mixed);
  kernels_.Add(mixed, delta);
  AddDelta(w.fed_norm.get(), delta, x);
}

void ForwardPass::AddExpertsAndBlock(int layer, const LowRankRows& adapted, const Tensor& input,
                                     Tensor& x) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  Tensor scores = scores_.Prefix(x.rows), mixed = mixed_.Prefix(x.rows);
  Tensor gates = block_gates_.Prefix(w.block_gate ? x.rows : 0);
  if (w.block_gate) kernels_.MatMul(input, *w.block_gate, nullptr, gates);
  kernels_.MatMul(input, *w.router, nullptr, scores);
  kernels_.MixExperts(input, {*w.experts, scores, config_.experts.rule, expert_scratch_}, mixed);
  // What the experts needed is not needed any more; nor, once its inner values are there, is what
  // the block reads.
  const Tensor inner = InnerOf(layer, adapted, input);
  Tensor delta = delta_.Prefix(x.rows);
  kernels_.MatMul(inner, *w.down, nullptr, delta);
  AddMore(w.down_more, adapted, inner, delta);
  if (w.block_gate) kernels_.GateRows(Gate::kLogistic, gates, delta);
  kernels_.Add(mixed, delta);
  AddDelta(w.fed_norm.get(), delta, x);
}

// For all layers at once: (norm(W x / √hidden) + √size embedding) / √2, with a norm for each layer.
void ForwardPass::ComputeLayerInputs(const StepInputs& step, const Tensor& x) {
  const LayerInputWeights& w = weights_.inputs;
  Tensor inputs = layer_inputs_.Prefix(step.rows), projected = projected_.Prefix(step.rows);
  kernels_.Embed(step, *w.embedding, inputs);
  kernels_.Scale(std::sqrt(static_cast<float>(config_.layer_input_size)), inputs);
  kernels_.MatMul(x, *w.projection, nullptr, projected);
  kernels_.Scale(1.0f / std::sqrt(static_cast<float>(config_.hidden_size)), projected);
  kernels_.RmsNormGroups(projected, config_.layer_input_size, *w.norm, config_.rms_eps, projected);
  kernels_.Add(projected, inputs);
  kernels_.Scale(std::sqrt(0.5f), inputs);
}

void ForwardPass::AddLayerInput(int layer, const Tensor& inputs, const LowRankRows& adapted,
                                Tensor& x) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const std::int64_t size = config_.layer_input_size;
  Tensor gates = input_gates_.Prefix(x.rows);
  kernels_.MatMul(x, *w.input_gate, nullptr, gates);
  kernels_.GateColumns(config_.gate, gates, inputs, layer * size, gates);
  AddToResidual({*w.input_projection, nullptr, nullptr, w.input_norm.get()}, adapted, gates, x);
}

std::string ArithmeticPlatform() {
#if defined(__x86_64__)
  std::string platform = "x86_64";
#elif defined(__aarch64__)
  std::string platform = "aarch64";
#else
  std::string platform = "another processor";
#endif
#ifdef __GLIBC__
  platform += std::string(", glibc ") + gnu_get_libc_version();
#endif
  return platform;
}

}  // namespace banyan
