// What every configuration must satisfy, whichever file it came from. The readers are
// config_huggingface.cc and config_gguf.cc.
#include "model/config.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "model/config_limits.h"

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

void ValidateRope(const ModelConfig& config, const std::string& where) {
  const RopeConfig& rope = config.rope;
  CheckRange(rope.rotary_dim, 2, config.head_dim, "the rotary dimension", where);
  if (rope.rotary_dim % 2 != 0) {
    Throw(ErrorKind::kFormat, "{}: the rotary dimension is {}, expected an even number", where,
          rope.rotary_dim);
  }
  CheckPositive(rope.theta, "rope theta", where);
  CheckFactors(rope.frequency_divisors, rope.rotary_dim, "rope_freqs", false, where);
  if (rope.kind == RopeKind::kPlain) return;
  CheckPositive(rope.factor, "the rope scaling factor", where);
  if (rope.kind == RopeKind::kLinear) return;
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
  if (config.windows.size() != static_cast<size_t>(config.layers)) {
    Throw(ErrorKind::kFormat, "{}: windows for {} layers, expected {}", where,
          config.windows.size(), config.layers);
  }
  for (const int window : config.windows) {
    CheckRange(window, 0, std::numeric_limits<int>::max(), "a sliding window", where);
  }
  ValidateRope(config, where);
}

}  // namespace banyan
