// GGUF metadata → ModelConfig.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "model/architecture_keys.h"
#include "model/config.h"
#include "model/config_gemma4.h"
#include "model/config_states.h"
#include "model/encoder_config.h"
#include "model/families.h"
#include "tensor/quantization.h"

namespace banyan {
namespace {

// A small tensor as numbers; empty when the file has none of that name.
std::vector<double> NumbersOf(const GgufFile& gguf, const char* tensor_name, int count) {
  if (!gguf.tensors().Has(tensor_name)) return {};
  const HostTensor& tensor = gguf.tensors().Get(tensor_name, {count});
  const DTypeTraits& traits = TraitsOf(tensor.dtype);
  if (traits.block != 1) {
    Throw(ErrorKind::kUnsupported, "{}: tensor '{}' is {}, expected a plain type", gguf.path(),
          tensor_name, traits.name);
  }
  std::vector<float> values(static_cast<size_t>(count));
  Dequantize(tensor.dtype, tensor.bytes, values);
  return {values.begin(), values.end()};
}

RopeKind RopeKindOf(const std::string& type, const std::string& path) {
  if (type == "none") return RopeKind::kPlain;
  if (type == "linear") return RopeKind::kLinear;
  if (type == "yarn") return RopeKind::kYarn;
  if (type == "longrope") return RopeKind::kLongRope;
  Throw(ErrorKind::kUnsupported,
        "{}: rope.scaling.type '{}' is not supported; supported: none, linear, yarn, longrope",
        path, type);
}

RopeConfig ReadRope(const ArchitectureKeys& keys, const ModelConfig& config) {
  const GgufFile& gguf = keys.gguf();
  RopeConfig rope;
  rope.theta = keys.FindFloat("rope.freq_base").value_or(rope.theta);
  rope.query_beta = keys.FindFloat("attention.temperature_scale").value_or(0.0);
  rope.rotary_dim = keys.FindInt("rope.dimension_count").value_or(config.head_dim);
  if (rope.rotary_dim < 2 || rope.rotary_dim > config.head_dim) {
    Throw(ErrorKind::kFormat, "{}: rope.dimension_count is {}, expected 2 to {}", gguf.path(),
          rope.rotary_dim, config.head_dim);
  }
  rope.kind = RopeKindOf(keys.FindString("rope.scaling.type").value_or("none"), gguf.path());
  if (const auto old = keys.FindFloat("rope.scale_linear"); old && *old != 0.0 && *old != 1.0) {
    rope.kind = RopeKind::kLinear;
    rope.factor = *old;
  }
  rope.factor = keys.FindFloat("rope.scaling.factor").value_or(rope.factor);
  if (rope.factor == 0.0) rope.factor = 1.0;  // how files write "none"
  rope.original_context =
      keys.FindInt("rope.scaling.original_context_length").value_or(config.context_length);
  rope.beta_fast = keys.FindFloat("rope.scaling.yarn_beta_fast").value_or(rope.beta_fast);
  rope.beta_slow = keys.FindFloat("rope.scaling.yarn_beta_slow").value_or(rope.beta_slow);
  rope.frequency_divisors = NumbersOf(gguf, "rope_freqs.weight", rope.rotary_dim / 2);
  rope.long_factor = NumbersOf(gguf, "rope_factors_long.weight", rope.rotary_dim / 2);
  rope.short_factor = NumbersOf(gguf, "rope_factors_short.weight", rope.rotary_dim / 2);
  // LongRoPE is often announced by its tensors alone.
  if (!rope.long_factor.empty()) rope.kind = RopeKind::kLongRope;
  const std::optional<double> attention = keys.FindFloat("rope.scaling.attn_factor");
  if (rope.kind == RopeKind::kLongRope) {
    rope.factor = static_cast<double>(config.context_length) / std::max(1, rope.original_context);
    rope.attention_factor = attention;
  } else if (rope.kind == RopeKind::kYarn && attention && rope.factor >= 1.0) {
    // On top of what YaRN itself applies.
    rope.attention_factor = *attention * (1.0 + 0.1 * std::log(rope.factor));
  }
  if (const auto multiplier = keys.FindFloat("rope.scaling.yarn_log_multiplier");
      multiplier && *multiplier != 0.0 && !rope.attention_factor) {
    rope.mscale = 1.0;
    rope.mscale_all_dim = *multiplier;
  }
  return rope;
}

// The rope of layers with a window, where it is another one.
std::optional<RopeConfig> ReadWindowRope(const ArchitectureKeys& keys, const Family& family,
                                         const RopeConfig& full) {
  if (family.windows_scale_rope) return std::nullopt;
  RopeConfig rope;
  rope.rotary_dim = keys.FindInt("rope.dimension_count_swa").value_or(full.rotary_dim);
  const double theta = family.default_window_theta > 0.0 ? family.default_window_theta : full.theta;
  rope.theta = keys.FindFloat("rope.freq_base_swa").value_or(theta);
  return rope;
}

int VocabSizeOf(const ArchitectureKeys& keys) {
  const GgufFile& gguf = keys.gguf();
  if (gguf.tensors().Has("token_embd.weight")) {
    const std::int64_t rows = gguf.tensors().GetAnyShape("token_embd.weight").rows();
    return static_cast<int>(std::min<std::int64_t>(rows, std::numeric_limits<int>::max()));
  }
  if (const auto size = keys.FindInt("vocab_size")) return *size;
  const std::uint64_t tokens = gguf.metadata().FindArrayLength("tokenizer.ggml.tokens").value_or(0);
  return static_cast<int>(std::min<std::uint64_t>(tokens, std::numeric_limits<int>::max()));
}

std::optional<TokenId> FindToken(const GgufFile& gguf, const char* key, int vocab_size) {
  const std::optional<std::int64_t> id = gguf.metadata().FindInt(key);
  if (!id || *id < 0 || *id >= vocab_size) return std::nullopt;
  return static_cast<TokenId>(*id);
}

// Which layers slide: the pattern is a number n (all but every n-th layer), or true and false for
// each layer.
std::vector<bool> ReadSliding(const ArchitectureKeys& keys, const Family& family, int layers) {
  std::vector<bool> slides(static_cast<size_t>(layers), family.window == WindowRule::kEveryLayer);
  if (family.window != WindowRule::kAllButEvery) return slides;
  constexpr const char* kPattern = "attention.sliding_window_pattern";
  const std::optional<std::vector<std::int64_t>> list = keys.FindList(kPattern);
  if (list) {
    if (list->size() != slides.size()) {
      Throw(ErrorKind::kFormat, "{}: {}: expected {} entries, found {}", keys.gguf().path(),
            kPattern, slides.size(), list->size());
    }
    for (size_t layer = 0; layer < slides.size(); ++layer) slides[layer] = (*list)[layer] != 0;
    return slides;
  }
  const int every = keys.FindInt(kPattern).value_or(family.full_every);
  for (size_t layer = 0; layer < slides.size(); ++layer) {
    slides[layer] = every == 0 || (layer + 1) % static_cast<size_t>(every) != 0;
  }
  return slides;
}

void ReadLayers(const ArchitectureKeys& keys, const Family& family, ModelConfig& config) {
  const int window = keys.FindInt("attention.sliding_window").value_or(0);
  std::vector<bool> slides = ReadSliding(keys, family, config.layers);
  // "llama" files hold Mistral models too, whose window spans every layer.
  if (family.gguf_architecture == "llama") slides.assign(slides.size(), true);
  const bool some = std::ranges::find(slides, true) != slides.end();
  if (window > 0 && window < config.context_length && !some) {
    Throw(ErrorKind::kUnsupported,
          "{}: a sliding window of {} in a model of architecture '{}' is not supported",
          keys.gguf().path(), window, family.gguf_architecture);
  }
  if (window == 0) slides.assign(slides.size(), false);
  config.ropes.assign(1, ReadRope(keys, config));
  config.ropes.front().truncate = family.gguf_yarn_truncates;
  const std::optional<RopeConfig> other = ReadWindowRope(keys, family, config.ropes.front());
  if (other) config.ropes.push_back(*other);
  // Granite's files say by this key whether there is any rotation.
  const bool no_rope =
      family.multipliers && !keys.FindBool("rope.scaling.finetuned").value_or(true);
  for (size_t layer = 0; layer < slides.size(); ++layer) {
    const auto every = static_cast<size_t>(family.no_rope_every);
    const bool rotated = !no_rope && (every == 0 || (layer + 1) % every != 0);
    const int rope = other && slides[layer] ? 1 : 0;
    config.attention.push_back({slides[layer] ? window : 0, rotated ? rope : kNoRope});
  }
}

float FloatOr(const ArchitectureKeys& keys, const char* key, float by_default) {
  const auto value = static_cast<float>(keys.FindFloat(key).value_or(by_default));
  return value == 0.0f ? by_default : value;  // how files write "none"
}

// Scalars that multiply activations.
void ReadScales(const ArchitectureKeys& keys, const Family& family, ModelConfig& config) {
  int scaled = config.head_dim;
  if (family.gguf_width_scaled_layers == config.layers) scaled = config.hidden_size / config.heads;
  config.attention_scale =
      FloatOr(keys, "attention.scale", 1.0f / std::sqrt(static_cast<float>(std::max(scaled, 1))));
  if (family.embedding_sqrt_width) {
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  }
  if (family.multipliers) {
    config.embedding_scale = FloatOr(keys, "embedding_scale", 1.0f);
    config.residual_scale = FloatOr(keys, "residual_scale", 1.0f);
    config.logit_scale = 1.0f / FloatOr(keys, "logit_scale", 1.0f);
  }
  if (family.logit_cap_configurable) {
    config.logit_cap = FloatOr(keys, "final_logit_softcapping", 0.0f);
  }
}

// OLMo-3 files have OLMo-2's architecture and a window.
const Family* FamilyOf(const GgufFile& gguf, const std::string& architecture) {
  const bool window =
      gguf.metadata().FindUint(architecture + ".attention.sliding_window").value_or(0) > 0;
  if (architecture == "olmo2" && window) return FindFamily("olmo3");
  return FindFamilyOfGguf(architecture);
}

// --- Experts -------------------------------------------------------------------------------------

int IntOf(const GgufFile& gguf, const std::string& key) {
  const std::uint64_t value = gguf.metadata().GetUint(key);
  return static_cast<int>(
      std::min<std::uint64_t>(value, std::numeric_limits<int>::max()));  // refused later
}

constexpr const char* kSharesKey = "expert_gating_func";
constexpr std::uint64_t kSoftmaxShares = 1, kLogisticShares = 2;  // its values

// Refuses mixtures whose choice, scale or shares differ from those of our families.
void RefuseOtherMixtures(const GgufFile& gguf, const Family& family) {
  const std::string prefix = std::string(family.gguf_architecture) + ".";
  const bool logistic = family.experts.logistic;
  for (const char* key :
       {"expert_shared_count", "expert_group_count", "leading_dense_block_count"}) {
    if (logistic && std::string_view(key) == "leading_dense_block_count") continue;
    const std::uint64_t value = gguf.metadata().FindUint(prefix + key).value_or(0);
    const std::uint64_t usual = std::string_view(key) == "expert_group_count" ? 1 : 0;
    if (value <= usual) continue;
    Throw(ErrorKind::kUnsupported, "{}: {}{} is {}, which is not supported", gguf.path(), prefix,
          key, value);
  }
  const std::uint64_t usual = logistic ? kLogisticShares : kSoftmaxShares;
  const std::uint64_t shares = gguf.metadata().FindUint(prefix + kSharesKey).value_or(usual);
  if (shares != usual) {
    Throw(ErrorKind::kUnsupported, "{}: {}{} is {}, expected {}", gguf.path(), prefix, kSharesKey,
          shares, usual);
  }
  if (logistic) return;
  const double scale = gguf.metadata().FindFloat(prefix + "expert_weights_scale").value_or(1.0);
  if (scale != 0.0 && scale != 1.0) {
    Throw(ErrorKind::kUnsupported, "{}: {}expert_weights_scale is {}, which is not supported",
          gguf.path(), prefix, scale);
  }
}

// Of LFM2-MoE.
void ReadLogisticShares(const GgufFile& gguf, const std::string& prefix, ExpertsConfig& experts) {
  const bool sums_to_one = experts.rule.shares == ExpertShares::kOfChosen;
  experts.rule.shares = sums_to_one ? ExpertShares::kLogisticOfChosen : ExpertShares::kLogistic;
  const double scale = gguf.metadata().FindFloat(prefix + "expert_weights_scale").value_or(1.0);
  if (scale != 0.0) experts.rule.scale = static_cast<float>(scale);  // 0: how files write "none"
  const auto first = std::ranges::find(experts.layers, true) - experts.layers.begin();
  experts.choice_biases = gguf.tensors().Has(fmt::format("blk.{}.exp_probs_b.bias", first));
}

// The block that all tokens share, in layers that have experts.
void ReadBlockBeside(const GgufFile& gguf, const std::string& prefix, ModelConfig& config) {
  const int beside = IntOf(gguf, prefix + "expert_shared_feed_forward_length");
  for (int layer = 0; layer < config.layers; ++layer) {
    config.ffn_sizes.push_back(config.HasExperts(layer) ? beside : config.ffn_size);
  }
}

// Shares are of the chosen experts unless expert_weights_norm is false, as files of these families
// have no key for them. A layer with dense feed-forward weights has no experts.
void ReadExperts(const GgufFile& gguf, const Family& family, ModelConfig& config) {
  const std::string prefix = std::string(family.gguf_architecture) + ".";
  const ExpertFamily& known = family.experts;
  if (known.default_count == 0) {
    if (gguf.metadata().FindUint(prefix + "expert_count").value_or(0) == 0) return;
    Throw(ErrorKind::kUnsupported,
          "{}: a mixture of experts of architecture '{}', which is not supported", gguf.path(),
          family.gguf_architecture);
  }
  ExpertsConfig& experts = config.experts;
  const bool may_be_dense = family.may_be_hybrid;  // Granite 4
  if (may_be_dense && !gguf.metadata().FindUint(prefix + "expert_count")) return;
  experts.count = IntOf(gguf, prefix + "expert_count");
  if (experts.count == 0) return;
  RefuseOtherMixtures(gguf, family);
  experts.rule.chosen = IntOf(gguf, prefix + "expert_used_count");
  constexpr const char* kInner = "expert_feed_forward_length";
  experts.inner_size = gguf.metadata().FindUint(prefix + kInner) ? IntOf(gguf, prefix + kInner)
                                                                 : config.ffn_size;  // Granite
  if (!gguf.metadata().FindBool(prefix + "expert_weights_norm").value_or(true)) {
    experts.rule.shares = ExpertShares::kOfAll;
  }
  experts.rule.gate.limit = static_cast<float>(known.default_limit);
  if (known.default_limit != 0.0) {
    experts.rule.gate.slope = static_cast<float>(known.default_slope);
  }
  experts.bias = known.bias;
  for (int layer = 0; layer < config.layers; ++layer) {
    experts.layers.push_back(!gguf.tensors().Has(fmt::format("blk.{}.ffn_gate.weight", layer)));
  }
  if (known.logistic) ReadLogisticShares(gguf, prefix, experts);
  experts.beside = known.beside;
  if (experts.HasBlockBeside()) ReadBlockBeside(gguf, prefix, config);
}

}  // namespace

ModelConfig ConfigFromGguf(const GgufFile& gguf) {
  const std::string architecture = gguf.metadata().GetString("general.architecture");
  const Family* family = FamilyOf(gguf, architecture);
  if (IsEncoderArchitecture(architecture)) {
    Throw(ErrorKind::kUnsupported,
          "{}: architecture '{}' is an encoder: it gives vectors of texts and writes none",
          gguf.path(), architecture);
  }
  if (family == nullptr) {
    Throw(ErrorKind::kUnsupported, "{}: architecture '{}': not supported; supported: {}",
          gguf.path(), architecture, SupportedInGguf());
  }
  const ArchitectureKeys keys(gguf, architecture);
  const TensorStore& tensors = gguf.tensors();
  ModelConfig config = StartOf(*family);
  config.vocab_size = VocabSizeOf(keys);
  config.hidden_size = keys.GetInt("embedding_length");
  config.layers = keys.GetInt("block_count");
  config.heads = keys.GetInt("attention.head_count");
  if (!family->gemma4) {
    if (!family->states) {
      config.kv_heads = keys.FindInt("attention.head_count_kv").value_or(config.heads);
    }
    const std::optional<int> of_experts = keys.FindInt("expert_feed_forward_length");
    config.ffn_size = of_experts ? keys.FindInt("feed_forward_length").value_or(*of_experts)
                                 : keys.GetInt("feed_forward_length");
  }
  config.context_length = keys.GetInt("context_length");
  if (config.heads < 1 || config.layers < 1 || config.layers > 4096) {
    Throw(ErrorKind::kFormat,
          "{}: {} heads in {} layers: expected at least one head, 1 to 4096 layers", gguf.path(),
          config.heads, config.layers);
  }
  RefuseMoreBlocks(gguf, architecture + ".block_count", config.layers);
  const int guessing = GuessingBlocks(keys, *family);
  CheckRange(guessing, 0, config.layers - 1, "nextn_predict_layers", gguf.path());
  config.layers -= guessing;
  if (family->states) ReadStates(keys, *family, config);
  config.head_dim =
      keys.FindInt("attention.key_length").value_or(config.hidden_size / config.heads);
  const int value_length = keys.FindInt("attention.value_length").value_or(config.head_dim);
  if (value_length != config.head_dim) {
    Throw(ErrorKind::kUnsupported, "{}: keys of {} and values of {}: expected equal lengths",
          gguf.path(), config.head_dim, value_length);
  }
  config.rms_eps = static_cast<float>(keys.GetFloat("attention.layer_norm_rms_epsilon"));
  int attention = 0;  // the first layer that has it
  while (attention + 1 < config.layers && config.HasState(attention)) ++attention;
  const auto has = [&](const char* name) {
    return tensors.Has(fmt::format("blk.{}.{}", attention, name));
  };
  config.qkv_bias = has("attn_q.bias") || has("attn_qkv.bias");
  config.output_bias = has("attn_output.bias");
  config.mlp_bias = tensors.Has("blk.0.ffn_up.bias");
  config.tied_embeddings = !tensors.Has("output.weight");
  config.interleaved_qk_rows = family->gguf_interleaves_qk;
  ReadLayers(keys, *family, config);
  config.attention_sinks = family->attention_sinks;
  if (!family->gemma4) ReadExperts(gguf, *family, config);
  ReadScales(keys, *family, config);
  if (family->gemma4) ReadGemma4(keys, config);
  config.bos = FindToken(gguf, "tokenizer.ggml.bos_token_id", config.vocab_size);
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const std::optional<TokenId> id = FindToken(gguf, key, config.vocab_size);
    if (id && std::ranges::find(config.eos, *id) == config.eos.end()) config.eos.push_back(*id);
  }
  ValidateConfig(config, gguf.path());
  return config;
}

}  // namespace banyan
