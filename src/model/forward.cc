#include "model/forward.h"

#include <cmath>
#include <functional>

#include "base/error.h"
#include "model/rope.h"

namespace banyan {

ForwardPass::ForwardPass(const ModelConfig& config, const ModelWeights& weights, Kernels& kernels,
                         int max_rows, int max_logit_rows)
    : config_(config),
      weights_(weights),
      kernels_(kernels),
      max_rows_(max_rows),
      recorder_(kernels.NewRecorder()) {
  const RopeTable rope = MakeRopeTable(config.rope, config.context_length);
  kernels.SetRope(rope.inverse_frequency, rope.scale);
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
  };
  const auto blocks = kernels.NewTensorGroups(within);
  qkv_ = blocks[0][0];
  attended_ = blocks[0][1];
  chosen_attended_ = blocks[0][2];
  gate_up_ = blocks[1][0];
  inner_ = blocks[1][1];
  logits_ = blocks[2][0];
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
}

void ForwardPass::Choose(std::span<const SamplingRow> requests,
                         std::unique_ptr<PendingChoices>& choices) {
  Tensor logits = logits_.Prefix(step_->logit_rows);
  kernels_.MatMulChoose(normed_.Prefix(step_->logit_rows), *weights_.logits, logits, requests,
                        choices);
}

// A device records the product with the rest of the step.
bool ForwardPass::can_only_choose() const {
  return !kernels_.asynchronous() && weights_.logits_more == nullptr;
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

bool ForwardPass::norm_before() const { return config_.norm_placement == NormPlacement::kBefore; }

AttentionShape ForwardPass::ShapeOf(int layer) const {
  return {config_.heads, config_.kv_heads, config_.head_dim,
          config_.windows[static_cast<size_t>(layer)],
          1.0f / std::sqrt(static_cast<float>(config_.head_dim))};
}

Tensor ForwardPass::LogitRows(const StepInputs& step, const Tensor& rows, const Tensor& memory) {
  Tensor chosen = memory.Prefix(step.logit_rows);
  kernels_.GatherLogitRows(step, rows, chosen);
  return chosen;
}

// qkv(norm(x)), turned; K and V go to `kv`. With the norm after the block: qkv(x).
Tensor ForwardPass::ProjectAndStore(int layer, const StepInputs& step, KvMemory& kv,
                                    const Tensor& x) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const QkNormWeights qk_norm{w.query_norm.get(), w.key_norm.get(),
                              config_.qk_norm == QkNorm::kWhole, config_.rms_eps};
  Tensor normed = normed_.Prefix(x.rows);
  Tensor qkv = qkv_.Prefix(x.rows);
  if (norm_before()) kernels_.RmsNorm(x, *w.attention_norm, config_.rms_eps, normed);
  kernels_.MatMul(norm_before() ? normed : x, *w.qkv, w.qkv_bias.get(), qkv);
  AddMore(w.qkv_more, {step}, norm_before() ? normed : x, qkv);
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

// x += W_o attended, or with the norm after the block: x += norm(W_o attended).
void ForwardPass::AddAttended(int layer, const LowRankRows& adapted, const Tensor& attended,
                              Tensor& x) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  Tensor delta = delta_.Prefix(x.rows);
  if (norm_before()) {
    kernels_.MatMulAdd(attended, *w.output, w.output_bias.get(), delta, x);
    AddMore(w.output_more, adapted, attended, x);
  } else {
    kernels_.MatMul(attended, *w.output, w.output_bias.get(), delta);
    AddMore(w.output_more, adapted, attended, delta);
    kernels_.RmsNorm(delta, *w.attention_norm, config_.rms_eps, delta);
    kernels_.Add(delta, x);
  }
}

// x += W_down (silu(gate) * up), norms as above.
void ForwardPass::FeedForward(int layer, const LowRankRows& adapted, Tensor& x) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  Tensor normed = normed_.Prefix(x.rows);
  Tensor gate_up = gate_up_.Prefix(x.rows);
  Tensor inner = inner_.Prefix(x.rows);
  Tensor delta = delta_.Prefix(x.rows);

  if (norm_before()) kernels_.RmsNorm(x, *w.ffn_norm, config_.rms_eps, normed);
  const Tensor& input = norm_before() ? normed : x;
  if (w.gate_up_more == nullptr || !adapted.step.adapted) {
    kernels_.MatMulSwiGlu(input, *w.gate_up, w.gate_up_bias.get(), gate_up, inner);
  } else {
    kernels_.AdaptedSwiGlu(
        input, {*w.gate_up, w.gate_up_bias.get(), CallOf(w.gate_up_more, adapted, input)}, gate_up,
        inner);
  }
  if (norm_before()) {
    kernels_.MatMulAdd(inner, *w.down, w.down_bias.get(), delta, x);
    AddMore(w.down_more, adapted, inner, x);
  } else {
    kernels_.MatMul(inner, *w.down, w.down_bias.get(), delta);
    AddMore(w.down_more, adapted, inner, delta);
    kernels_.RmsNorm(delta, *w.ffn_norm, config_.rms_eps, delta);
    kernels_.Add(delta, x);
  }
}

}  // namespace banyan
