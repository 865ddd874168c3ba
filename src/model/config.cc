// What every configuration must satisfy, whichever file it came from. The readers are
// config_huggingface.cc and config_gguf.cc.
#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace banyan {
namespace {

constexpr int kMaxContext = 1 << 30;  // tokens

void CheckPositive(double value, const char* what, const std::string& where) {
  if (!std::isfinite(value) || value <= 0) {
    Throw(ErrorKind::kFormat, "{}: {} is {}, expected a positive number", where, what, value);
  }
}

// `required`: an empty list is an error.
void CheckFactors(const std::vector<double>& factors, int rotary_dim, const char* what,
                  bool required, const std::string& where) {
  if (factors.empty() && !required) return;
  if (factors.size() != static_cast<size_t>(rotary_dim / 2)) {
    Throw(ErrorKind::kFormat, "{}: {} has {} values, expected {} (half of the rotary dimension)",
          where, what, factors.size(), rotary_dim / 2);
  }
  for (const double factor : factors) CheckPositive(factor, what, where);
}

// The smallest head that a rotary table turns.
int HeadDimOfRope(const ModelConfig& config, int rope) {
  int dim = 0;
  for (int layer = 0; layer < config.layers; ++layer) {
    if (config.Attention(layer).rope != rope) continue;
    const int head = config.KeysOf(layer).dim;
    dim = dim == 0 ? head : std::min(dim, head);
  }
  return dim == 0 ? config.head_dim : dim;
}

void ValidateLayer(const ModelConfig& config, int layer, const std::string& where) {
  const LayerAttention& attention = config.Attention(layer);
  CheckRange(attention.window, 0, std::numeric_limits<int>::max(), "a sliding window", where);
  CheckRange(attention.rope, kNoRope, static_cast<int>(config.ropes.size()) - 1,
             "the rotary table of a layer", where);
  const KvHeads keys = config.KeysOf(layer);
  CheckRange(keys.heads, 1, config.heads, "the number of KV heads of a layer", where);
  CheckRange(keys.dim, 2, kMaxWidth / config.heads, "the head dimension of a layer", where);
  CheckRange(config.FfnSize(layer), 1, kMaxWidth, "the feed-forward size of a layer", where);
  if (config.heads % keys.heads != 0) {
    Throw(ErrorKind::kFormat, "{}: {} KV heads of layer {} do not divide {} heads", where,
          keys.heads, layer, config.heads);
  }
  if (config.HasKeys(layer) || config.HasState(layer)) return;
  CheckRange(attention.keys_of, 0, layer - 1, "the layer whose keys another one reads", where);
  if (!config.HasKeys(attention.keys_of) || !(config.KeysOf(attention.keys_of) == keys)) {
    Throw(ErrorKind::kFormat, "{}: layer {} cannot read the keys of layer {}: its heads differ",
          where, layer, attention.keys_of);
  }
}

void ValidateRope(const RopeConfig& rope, int head_dim, const std::string& where) {
  CheckRange(rope.rotary_dim, 2, head_dim, "the rotary dimension", where);
  if (rope.rotary_dim % 2 != 0) {
    Throw(ErrorKind::kFormat, "{}: the rotary dimension is {}, expected an even number", where,
          rope.rotary_dim);
  }
  CheckPositive(rope.theta, "rope theta", where);
  CheckFactors(rope.frequency_divisors, rope.rotary_dim, "rope_freqs", false, where);
  if (rope.query_beta != 0.0) {
    CheckPositive(rope.query_beta, "llama_4_scaling_beta", where);
    CheckRange(rope.original_context, 2, kMaxContext, "the original context", where);
  }
  if (rope.kind == RopeKind::kPlain) return;
  CheckPositive(rope.factor, "the rope scaling factor", where);
  if (rope.kind == RopeKind::kProportional) {
    CheckRange(rope.rotated_pairs, 0, rope.rotary_dim / 2, "the rotated part of a head", where);
  }
  if (rope.kind == RopeKind::kLinear || rope.kind == RopeKind::kProportional) return;
  CheckRange(rope.original_context, 2, kMaxContext, "the original context", where);
  if (rope.attention_factor) CheckPositive(*rope.attention_factor, "attention_factor", where);
  if (rope.kind == RopeKind::kLongRope) {
    CheckFactors(rope.short_factor, rope.rotary_dim, "short_factor", true, where);
    CheckFactors(rope.long_factor, rope.rotary_dim, "long_factor", true, where);
  } else if (rope.kind == RopeKind::kLlama3) {
    CheckPositive(rope.low_freq_factor, "low_freq_factor", where);
    CheckPositive(rope.high_freq_factor - rope.low_freq_factor,
                  "high_freq_factor - low_freq_factor", where);
  } else {
    CheckPositive(rope.beta_fast, "beta_fast", where);
    CheckPositive(rope.beta_slow, "beta_slow", where);
    CheckPositive(rope.theta - 1.0, "rope theta - 1", where);  // a logarithm divides by it
    if (!std::isfinite(rope.mscale) || !std::isfinite(rope.mscale_all_dim)) {
      Throw(ErrorKind::kFormat, "{}: mscale {} and mscale_all_dim {}: expected finite numbers",
            where, rope.mscale, rope.mscale_all_dim);
    }
  }
}

void ValidateStates(const ModelConfig& config, const std::string& where) {
  const StatesConfig& states = config.states;
  if (!states.any()) return;
  const StateShape& shape = states.shape;
  constexpr int kMostWidth = 1 << 20;
  if (states.layers.size() != static_cast<size_t>(config.layers)) {
    Throw(ErrorKind::kFormat, "{}: states of {} layers, expected {}", where, states.layers.size(),
          config.layers);
  }
  if (StateLayersBefore(config, config.layers) == config.layers) {
    Throw(ErrorKind::kUnsupported, "{}: no layer has attention; expected at least one", where);
  }
  CheckRange(shape.taps, 2, kMostTaps, "the length of a state's convolution", where);
  if (shape.heads > 0) {
    CheckRange(shape.heads, 1, kMostWidth, "the number of a state's heads", where);
    CheckRange(shape.key_dim, 1, kMostWidth / shape.heads, "a state's key dimension", where);
    CheckRange(shape.value_dim, 1, kMostWidth / shape.heads, "a state's value dimension", where);
    CheckRange(shape.key_heads, 1, shape.heads, "the number of a state's key heads", where);
    if (shape.heads % shape.key_heads != 0) {
      Throw(ErrorKind::kFormat, "{}: {} key heads of a state do not divide {} heads", where,
            shape.key_heads, shape.heads);
    }
  }
  CheckRange(shape.channels, 1, kMaxWidth, "the width of a state's convolution", where);
  if (!(states.least_step >= 0.0f && states.least_step <= states.most_step)) {
    Throw(ErrorKind::kFormat, "{}: time_step_limit is {} to {}, expected an interval from 0 on",
          where, states.least_step, states.most_step);
  }
}

void ValidateExperts(const ModelConfig& config, const std::string& where) {
  const ExpertsConfig& experts = config.experts;
  if (experts.count == 0) return;
  CheckRange(experts.count, 1, kMostExperts, "the number of experts", where);
  CheckRange(experts.rule.chosen, 1, std::min(experts.count, kMostChosen),
             "the number of experts of a token", where);
  CheckRange(experts.inner_size, 1, kMaxWidth / 2, "the size of an expert", where);
  if (experts.rule.gate.limit != 0.0f) {
    CheckPositive(experts.rule.gate.limit, "the limit of experts' gates", where);
    CheckPositive(experts.rule.gate.slope, "the slope of experts' gates", where);
  }
  if (experts.layers.size() != static_cast<size_t>(config.layers)) {
    Throw(ErrorKind::kFormat, "{}: experts of {} layers, expected {}", where, experts.layers.size(),
          config.layers);
  }
}

}  // namespace

void ValidateConfig(const ModelConfig& config, const std::string& where) {
  CheckRange(config.vocab_size, 1, kMaxWidth, "the vocabulary size", where);
  CheckRange(config.hidden_size, 1, kMaxWidth, "the hidden size", where);
  CheckRange(config.layers, 1, kMaxLayers, "the number of layers", where);
  CheckRange(config.heads, 1, kMaxWidth, "the number of heads", where);
  CheckRange(config.kv_heads, 1, config.heads, "the number of KV heads", where);
  CheckRange(config.head_dim, 2, kMaxWidth / config.heads, "the head dimension", where);
  CheckRange(config.ffn_size, 1, kMaxWidth, "the feed-forward size", where);
  CheckRange(config.context_length, 1, kMaxContext, "the context length", where);
  if (config.heads % config.kv_heads != 0) {
    Throw(ErrorKind::kFormat, "{}: {} KV heads do not divide {} heads", where, config.kv_heads,
          config.heads);
  }
  if (!(config.rms_eps > 0.0f && config.rms_eps < 1.0f)) {
    Throw(ErrorKind::kFormat, "{}: the norm's epsilon is {}, expected a number in (0, 1)", where,
          config.rms_eps);
  }
  CheckPositive(config.embedding_scale, "the scale of embeddings", where);
  CheckPositive(config.attention_scale, "the scale of attention scores", where);
  CheckPositive(config.residual_scale, "the scale of residuals", where);
  CheckPositive(config.logit_scale, "the scale of logits", where);
  if (config.logit_cap != 0.0f) CheckPositive(config.logit_cap, "the cap of logits", where);
  if (config.attention.size() != static_cast<size_t>(config.layers)) {
    Throw(ErrorKind::kFormat, "{}: attention of {} layers, expected {}", where,
          config.attention.size(), config.layers);
  }
  CheckRange(static_cast<int>(config.ropes.size()), 1, 2, "the number of rotary tables", where);
  for (int layer = 0; layer < config.layers; ++layer) ValidateLayer(config, layer, where);
  for (size_t i = 0; i < config.ropes.size(); ++i) {
    ValidateRope(config.ropes[i], HeadDimOfRope(config, static_cast<int>(i)), where);
  }
  CheckRange(config.layer_input_size, 0, kMaxWidth / config.layers, "the size of layers' inputs",
             where);
  if (config.layer_input_size > 0) {
    CheckRange(config.layer_input_vocab, config.vocab_size, kMaxWidth,
               "the vocabulary of layers' inputs", where);
  }
  ValidateExperts(config, where);
  ValidateStates(config, where);
}

KvShape KvShapeOf(const ModelConfig& config) {
  KvShape shape{0, config.kv_heads, config.head_dim, {}};
  for (int layer = 0; layer < config.layers; ++layer) {
    if (config.HasKeys(layer)) shape.by_layer.push_back(config.KeysOf(layer));
  }
  shape.layers = static_cast<int>(shape.by_layer.size());
  const KvHeads usual = {config.kv_heads, config.head_dim};
  if (std::ranges::all_of(shape.by_layer, [&](const KvHeads& heads) { return heads == usual; })) {
    shape.by_layer.clear();
  }
  return shape;
}

int KvLayerOf(const ModelConfig& config, int layer) {
  const int owner = config.HasKeys(layer) ? layer : config.Attention(layer).keys_of;
  int before = 0;
  for (int other = 0; other < owner; ++other) before += config.HasKeys(other) ? 1 : 0;
  return before;
}

int StateLayersBefore(const ModelConfig& config, int layer) {
  int before = 0;
  for (int other = 0; other < layer; ++other) before += config.HasState(other) ? 1 : 0;
  return before;
}

std::int64_t StateBytesOf(const ModelConfig& config) {
  return config.states.shape.bytes() * StateLayersBefore(config, config.layers);
}

}  // namespace banyan
