#include "model/forward.h"

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include <features.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "model/rope.h"

namespace banyan {

AttentionShape ShapeOfLayer(const ModelConfig& config, int layer) {
  const LayerAttention& attention = config.attention[static_cast<size_t>(layer)];
  return {config.heads,     config.kv_heads,        config.head_dim,
          attention.window, config.attention_scale, attention.rope};
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
  const std::int64_t dim = config.head_dim;
  const std::int64_t rows = max_rows, hidden = config.hidden_size, ffn = config.ffn_size;
  x_ = kernels.NewTensor(rows, hidden);
  chosen_ = kernels.NewTensor(max_logit_rows, hidden);
  // What a block reads is not needed when it adds to x.
  const std::vector<TensorGroup> around = {{{rows, hidden}}, {{rows, hidden}}};
  const auto sides = kernels.NewTensorGroups(around);
  normed_ = sides[0][0];
  delta_ = sides[1][0];
  // What lies within a block is not needed in the next one, nor with the logits.
  const std::vector<TensorGroup> within = {
      {{rows, (config.heads + 2 * config.kv_heads) * dim},
       {rows, config.heads * dim},
       {max_logit_rows, config.heads * dim}},
      {{rows, 2 * ffn}, {rows, ffn}},
      {{max_logit_rows, config.vocab_size}},
      ExpertTensorsFor(config, rows, ExpertStretch(kernels)),
  };
  const auto blocks = kernels.NewTensorGroups(within);
  qkv_ = blocks[0][0];
  attended_ = blocks[0][1];
  chosen_attended_ = blocks[0][2];
  gate_up_ = blocks[1][0];
  inner_ = blocks[1][1];
  logits_ = blocks[2][0];
  if (config.experts.count > 0) {
    scores_ = blocks[3][0];
    expert_scratch_ = {blocks[3][1], blocks[3][2], blocks[3][3], blocks[3][4]};
  }
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

// Every row's keys and values of the last layer are stored; what comes after them there is computed
// for the rows whose logits are wanted, and not at all where there are none.
void ForwardPass::Compute(const StepInputs& step, KvMemory& kv, const ForwardOptions& options) {
  Tensor x = x_.Prefix(step.rows);
  kernels_.Embed(step, *weights_.embedding, x);
  if (config_.embedding_scale != 1.0f) kernels_.Scale(config_.embedding_scale, x);
  for (int layer = 0; layer < config_.layers; ++layer) {
    const bool last = layer + 1 == config_.layers;
    const Tensor qkv = ProjectAndStore(layer, step, kv, x);
    if (last && step.logit_rows == 0) return;
    Tensor attended = Attend(layer, step, kv, options.skip_attention, qkv);
    const LowRankRows adapted{step, last ? StepRows::kLogits : StepRows::kAll};
    if (last) {
      x = LogitRows(step, x, chosen_);
      attended = LogitRows(step, attended, chosen_attended_);
    }
    AddAttended(layer, adapted, attended, x);
    FeedForward(layer, adapted, x);
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
  const QkNormWeights qk_norm{w.query_norm.get(), w.key_norm.get(),
                              config_.qk_norm == QkNorm::kWhole, config_.rms_eps};
  Tensor normed = normed_.Prefix(x.rows);
  Tensor qkv = qkv_.Prefix(x.rows);
  if (w.attention_norm) kernels_.RmsNorm(x, *w.attention_norm, config_.rms_eps, normed);
  const Tensor& input = w.attention_norm ? normed : x;
  kernels_.MatMul(input, *w.qkv, w.qkv_bias.get(), qkv);
  AddMore(w.qkv_more, {step}, input, qkv);
  kernels_.RotateAndStore(step, layer, ShapeOf(layer), qk_norm, qkv, kv);
  return qkv;
}

Tensor ForwardPass::Attend(int layer, const StepInputs& step, const KvMemory& kv, bool skip,
                           const Tensor& qkv) {
  Tensor attended = attended_.Prefix(qkv.rows);
  if (skip) {
    kernels_.Clear(attended);
  } else {
    kernels_.Attend(step, layer, ShapeOf(layer), qkv, kv, attended);
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

void ForwardPass::AddAttended(int layer, const LowRankRows& adapted, const Tensor& attended,
                              Tensor& x) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  AddToResidual({*w.output, w.output_bias.get(), w.output_more, w.attended_norm.get()}, adapted,
                attended, x);
}

// x += W_down (gate(W_gate x) * W_up x), norms as above.
void ForwardPass::FeedForward(int layer, const LowRankRows& adapted, Tensor& x) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  Tensor normed = normed_.Prefix(x.rows);
  Tensor gate_up = gate_up_.Prefix(x.rows);
  Tensor inner = inner_.Prefix(x.rows);

  if (w.ffn_norm) kernels_.RmsNorm(x, *w.ffn_norm, config_.rms_eps, normed);
  const Tensor& input = w.ffn_norm ? normed : x;
  if (w.experts != nullptr) return AddExperts(w, input, x);
  const GatedProduct product{*w.gate_up, w.gate_up_bias.get(), config_.gate};
  if (w.gate_up_more == nullptr || !adapted.step.adapted) {
    kernels_.MatMulGlu(input, product, gate_up, inner);
  } else {
    kernels_.AdaptedGlu(input, product, CallOf(w.gate_up_more, adapted, input), gate_up, inner);
  }
  AddToResidual({*w.down, w.down_bias.get(), w.down_more, w.fed_norm.get()}, adapted, inner, x);
}

// x += sum of the shares of the experts that the router chooses.
void ForwardPass::AddExperts(const LayerWeights& w, const Tensor& input, Tensor& x) {
  Tensor scores = scores_.Prefix(x.rows), delta = delta_.Prefix(x.rows);
  kernels_.MatMul(input, *w.router, w.router_bias.get(), scores);
  kernels_.MixExperts(input, {*w.experts, scores, config_.experts.rule, expert_scratch_}, delta);
  AddDelta(w.fed_norm.get(), delta, x);
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
