// config.json and generation_config.json → ModelConfig, with the meaning that Transformers gives
// to absent and null keys. RoPE parameters are read in rope.cc.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "model/config.h"
#include "model/config_gemma4.h"
#include "model/config_states.h"
#include "model/encoder_config.h"
#include "model/families.h"
#include "model/json_fields.h"
#include "model/rope.h"
#include "model/weight_scales.h"

namespace banyan {
namespace {

const Family& FamilyOf(const JsonFields& fields) {
  const std::string type = fields.FindString("model_type").value_or("");
  const Family* family = FindFamily(type);
  if (IsEncoderFamily(type)) {
    Throw(ErrorKind::kUnsupported,
          "{}: model_type '{}' is an encoder: it gives vectors of texts and writes none",
          fields.where(), type);
  }
  if (family == nullptr) {
    Throw(ErrorKind::kUnsupported, "{}: model_type '{}': not supported; supported: {}",
          fields.where(), type, SupportedFamilies());
  }
  return *family;
}

// The part of the file that describes the decoder: in files of models for images and text it is
// `text_config`.
const Json& TextPartOf(const Json& json, const JsonFields& fields) {
  const std::string type = fields.FindString("model_type").value_or("");
  const bool whole = std::ranges::none_of(
      Families(), [&](const Family& family) { return !type.empty() && family.part_of == type; });
  const Json* part = fields.Find("text_config");
  return whole || part == nullptr ? json : *part;
}

// A number or a list of numbers. Ids outside the vocabulary can never be produced (files write -1
// for none): they are left out.
std::vector<TokenId> ReadTokens(const JsonFields& fields, const char* key, int vocab_size) {
  const Json* value = fields.Find(key);
  if (value == nullptr) return {};
  std::vector<TokenId> tokens;
  const auto add = [&](const Json& element) {
    const int id = fields.IntOf(element, key);
    if (id >= 0 && id < vocab_size) tokens.push_back(id);
  };
  if (value->is_array()) {
    for (const Json& element : *value) add(element);
  } else {
    add(*value);
  }
  return tokens;
}

// Files to read tokens from, the first that names one counts.
struct TokenFiles {
  const JsonFields &generation, &text, &whole;
};

void ReadSpecialTokens(const TokenFiles& files, const Family& family, ModelConfig& config) {
  const auto tokens_of = [&](const char* key, int fallback) {
    const JsonFields& generation = files.generation;
    if (generation.Find(key) != nullptr) return ReadTokens(generation, key, config.vocab_size);
    for (const JsonFields* fields : {&files.text, &files.whole}) {
      if (fields->Find(key) != nullptr || fields->IsNull(key)) {
        return ReadTokens(*fields, key, config.vocab_size);
      }
    }
    std::vector<TokenId> tokens;
    if (fallback >= 0 && fallback < config.vocab_size) tokens.push_back(fallback);
    return tokens;
  };
  config.eos = tokens_of("eos_token_id", family.default_eos);
  const std::vector<TokenId> bos = tokens_of("bos_token_id", family.default_bos);
  if (!bos.empty()) config.bos = bos.front();
}

void CheckActivation(const JsonFields& fields, const Family& family) {
  const bool silu = family.gate == Gate::kSilu;
  const char* key = silu ? "hidden_act" : "hidden_activation";
  const char* expected = silu ? "silu" : "gelu_pytorch_tanh";
  const std::string found = fields.FindString(key).value_or(expected);
  if (found == expected || (silu && found == "swish")) return;
  Throw(ErrorKind::kUnsupported, "{}: {} '{}' is not supported; expected {}", fields.where(), key,
        found, expected);
}

void RefuseWhatWeDoNotHave(const JsonFields& fields, const Family& family) {
  CheckActivation(fields, family);
  const Json* both_ways = fields.Find("use_bidirectional_attention");
  // "vision": tokens of images alone, of which there are none here.
  if (both_ways != nullptr && *both_ways != false && *both_ways != "vision") {
    Throw(ErrorKind::kUnsupported,
          "{}: use_bidirectional_attention: keys after a token are not supported", fields.where());
  }
}

// Experts in MXFP4 say so by the names of their tensors.
WeightScales ReadQuantization(const JsonFields& fields) {
  const Json* quantization = fields.Find("quantization_config");
  if (quantization == nullptr) return {};
  const JsonFields quantized(*quantization, fields.where() + ": quantization_config");
  const Family* family = FindFamily(fields.FindString("model_type").value_or(""));
  const bool mxfp4 = quantized.FindString("quant_method") == "mxfp4";
  if (mxfp4 && family != nullptr && family->experts.may_be_mxfp4) return {};
  return ReadWeightScales(quantized);
}

float ReadFloat(const JsonFields& fields, const char* key, double by_default) {
  return static_cast<float>(fields.FindNumber(key).value_or(by_default));
}

// Scalars that multiply activations.
void ReadScales(const JsonFields& fields, const Family& family, ModelConfig& config) {
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  if (family.embedding_sqrt_width) {
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  }
  if (family.default_query_scalar > 0.0) {
    config.attention_scale = static_cast<float>(
        1.0 /
        std::sqrt(
            fields.FindNumber("query_pre_attn_scalar").value_or(family.default_query_scalar)));
  }
  if (family.multipliers) {
    config.embedding_scale = ReadFloat(fields, "embedding_multiplier", 1.0);
    config.attention_scale = ReadFloat(fields, "attention_multiplier", 1.0);
    config.residual_scale = ReadFloat(fields, "residual_multiplier", 1.0);
    config.logit_scale = 1.0f / ReadFloat(fields, "logits_scaling", 1.0);
  }
  if (family.logit_cap_configurable) {
    config.logit_cap = ReadFloat(fields, "final_logit_softcapping", 0.0);
  }
}

// --- Layers: windows and RoPE --------------------------------------------------------------------

// A list with an entry for each layer; null when the key is absent.
const Json* ListOfLayers(const JsonFields& fields, const char* key, int layers) {
  const Json* list = fields.Find(key);
  if (list != nullptr && (!list->is_array() || list->size() != static_cast<size_t>(layers))) {
    Throw(ErrorKind::kFormat, "{}: '{}': expected a list of {} entries", fields.where(), key,
          layers);
  }
  return list;
}

std::vector<bool> ReadRotated(const JsonFields& fields, const Family& family, int layers) {
  std::vector<bool> rotated(static_cast<size_t>(layers), true);
  if (family.may_be_hybrid && fields.FindString("position_embedding_type") != "rope") {
    rotated.assign(rotated.size(), false);
  }
  if (family.no_rope_every == 0) return rotated;
  const int every = fields.FindInt("no_rope_layer_interval").value_or(family.no_rope_every);
  if (every < 1) {
    Throw(ErrorKind::kFormat, "{}: no_rope_layer_interval is {}, expected a positive number",
          fields.where(), every);
  }
  const Json* list = ListOfLayers(fields, "no_rope_layers", layers);
  for (size_t layer = 0; layer < rotated.size(); ++layer) {
    if (list == nullptr) {
      rotated[layer] = (layer + 1) % static_cast<size_t>(every) != 0;
    } else {
      rotated[layer] = fields.IntOf((*list)[layer], "no_rope_layers") != 0;  // 1: with RoPE
    }
  }
  return rotated;
}

// Whether a layer of `types` slides.
bool Slides(const JsonFields& fields, const Json& types, size_t layer) {
  const Json& type = types[layer];
  if (type == kSlidingAttention) return true;
  if (type == kFullAttention) return false;
  Throw(ErrorKind::kUnsupported, "{}: 'layer_types': layer {} is {}; supported: {}, {}",
        fields.where(), layer, type.dump(), kFullAttention, kSlidingAttention);
}

std::vector<bool> SlidingByRule(const JsonFields& fields, const Family& family,
                                const std::vector<bool>& rotated) {
  const bool wanted = fields.FindBool("use_sliding_window").value_or(false);
  std::vector<bool> slides(rotated.size(), family.window == WindowRule::kEveryLayer ||
                                               (family.window == WindowRule::kSwitched && wanted));
  const int last = fields.FindInt("max_window_layers").value_or(28);
  std::optional<int> every = fields.FindInt("sliding_window_pattern");
  if (!every) every = fields.FindInt("_sliding_window_pattern");
  if (every && *every < 1) {
    Throw(ErrorKind::kFormat, "{}: sliding_window_pattern is {}, expected a positive number",
          fields.where(), *every);
  }
  for (size_t layer = 0; layer < slides.size(); ++layer) {
    if (family.window == WindowRule::kLastLayers) {
      slides[layer] = wanted && static_cast<int>(layer) >= last;
    } else if (family.window == WindowRule::kAllButEvery) {
      slides[layer] = (layer + 1) % static_cast<size_t>(every.value_or(family.full_every)) != 0;
    } else if (family.window == WindowRule::kNoRopeLayers) {
      slides[layer] = wanted && !rotated[layer];
    }
  }
  return slides;
}

// Which layers slide, and the window of those that do.
struct SlidingLayers {
  std::vector<bool> slides;  // [layers]
  int window = 0;
};

SlidingLayers ReadSliding(const JsonFields& fields, const Family& family,
                          const std::vector<bool>& rotated) {
  if (family.window == WindowRule::kNone) return {std::vector<bool>(rotated.size(), false), 0};
  int window = fields.FindInt("sliding_window").value_or(family.default_window);
  if (fields.IsNull("sliding_window")) window = 0;
  const bool switched = family.window == WindowRule::kLastLayers;
  if (switched && !fields.FindBool("use_sliding_window").value_or(false)) window = 0;
  const bool alike =
      family.window == WindowRule::kEveryLayer || family.window == WindowRule::kSwitched;
  const Json* types =
      alike ? nullptr : ListOfLayers(fields, "layer_types", static_cast<int>(rotated.size()));
  std::vector<bool> slides = SlidingByRule(fields, family, rotated);
  const bool window_needed = types != nullptr || family.window == WindowRule::kAllButEvery;
  for (size_t layer = 0; layer < slides.size(); ++layer) {
    if (types != nullptr) slides[layer] = Slides(fields, *types, layer);
    if (slides[layer] && window_needed && window == 0) {
      Throw(ErrorKind::kFormat, "{}: layer {} slides, but there is no sliding_window",
            fields.where(), layer);
    }
  }
  if (family.gemma4) slides.back() = false;
  return {slides, window};
}

// Fills config.attention and config.ropes. REQUIRES: config.layers is within its limits; head_dim
// and context_length are set.
void ReadLayers(const JsonFields& fields, const Family& family, ModelConfig& config) {
  const std::vector<bool> rotated = ReadRotated(fields, family, config.layers);
  const auto [slides, window] = ReadSliding(fields, family, rotated);
  const RopesByKind ropes = ReadRopes(fields, family, config, FullHeadDim(fields, family, config));
  config.ropes.assign(1, ropes.full);
  if (ropes.differ) config.ropes.push_back(ropes.sliding);
  for (size_t layer = 0; layer < rotated.size(); ++layer) {
    const int rope = ropes.differ && slides[layer] ? 1 : 0;
    config.attention.push_back({slides[layer] ? window : 0, rotated[layer] ? rope : kNoRope});
  }
}

// --- Experts -------------------------------------------------------------------------------------

// Which layers have experts: every `decoder_sparse_step`-th one but those of `mlp_only_layers`.
std::vector<bool> ReadExpertLayers(const JsonFields& fields, int layers) {
  const int step = fields.FindInt("decoder_sparse_step").value_or(1);
  if (step < 1) {
    Throw(ErrorKind::kFormat, "{}: decoder_sparse_step is {}, expected a positive number",
          fields.where(), step);
  }
  std::vector<bool> has(static_cast<size_t>(layers));
  for (int layer = 0; layer < layers; ++layer) {
    has[static_cast<size_t>(layer)] = (layer + 1) % step == 0;
  }
  const Json* dense = fields.Find("mlp_only_layers");
  if (dense == nullptr) return has;
  if (!dense->is_array()) {
    Throw(ErrorKind::kFormat, "{}: 'mlp_only_layers': expected a list, found {}", fields.where(),
          dense->type_name());
  }
  for (const Json& entry : *dense) {
    const int layer = fields.IntOf(entry, "mlp_only_layers");
    if (layer >= 0 && layer < layers) has[static_cast<size_t>(layer)] = false;
  }
  return has;
}

// Of LFM2-MoE, whose first layers have no experts.
void ReadLogisticShares(const JsonFields& fields, ModelConfig& config) {
  ExpertsConfig& experts = config.experts;
  const bool sums_to_one = fields.FindBool("norm_topk_prob").value_or(true);
  experts.rule.shares = sums_to_one ? ExpertShares::kLogisticOfChosen : ExpertShares::kLogistic;
  experts.rule.scale = static_cast<float>(fields.FindNumber("routed_scaling_factor").value_or(1.0));
  experts.choice_biases = fields.FindBool("use_expert_bias").value_or(true);
  const int dense = fields.FindInt("num_dense_layers").value_or(2);
  CheckRange(dense, 0, config.layers, "num_dense_layers", fields.where());
  std::fill_n(experts.layers.begin(), dense, false);
}

// Fills config.experts. REQUIRES: config.layers is within its limits.
void ReadExperts(const JsonFields& fields, const Family& family, ModelConfig& config) {
  const ExpertFamily& known = family.experts;
  if (known.default_count == 0) return;
  ExpertsConfig& experts = config.experts;
  std::optional<int> count = fields.FindInt("num_local_experts");
  if (!count) count = fields.FindInt("num_experts");
  experts.count = count.value_or(known.default_count);
  if (experts.count == 0) return;
  experts.rule.chosen = fields.FindInt("num_experts_per_tok").value_or(known.default_chosen);
  const std::string inner_key(known.inner_key);
  experts.inner_size = known.default_inner > 0
                           ? fields.FindInt(inner_key.c_str()).value_or(known.default_inner)
                           : fields.GetInt(inner_key.c_str());
  if (known.shares_configurable && !fields.FindBool("norm_topk_prob").value_or(false)) {
    experts.rule.shares = ExpertShares::kOfAll;
  }
  if (known.default_limit != 0.0) {
    experts.rule.gate.limit =
        static_cast<float>(fields.FindNumber("swiglu_limit").value_or(known.default_limit));
    experts.rule.gate.slope =
        static_cast<float>(fields.FindNumber("swiglu_alpha").value_or(known.default_slope));
    if (!(experts.rule.gate.limit > 0.0f)) {
      Throw(ErrorKind::kFormat, "{}: swiglu_limit is {}, expected a positive number",
            fields.where(), experts.rule.gate.limit);
    }
  }
  experts.bias = known.bias;
  experts.in_pairs = known.in_pairs;
  experts.layers.assign(static_cast<size_t>(config.layers), true);
  if (known.layers_configurable) experts.layers = ReadExpertLayers(fields, config.layers);
  if (known.logistic) ReadLogisticShares(fields, config);
  experts.beside = known.beside;
  if (experts.beside != BlockBeside::kGated) return;
  const int beside = fields.GetInt("shared_expert_intermediate_size");
  for (int layer = 0; layer < config.layers; ++layer) {
    config.ffn_sizes.push_back(config.HasExperts(layer) ? beside : config.ffn_size);
  }
}

}  // namespace

ModelConfig ConfigFromHuggingFace(const std::string& text, const std::string& generation,
                                  const std::string& where) {
  const Json json = ParseJson(text, where + "/config.json");
  const JsonFields whole(json, where + "/config.json");
  WeightScales scales = ReadQuantization(whole);
  const JsonFields fields(TextPartOf(json, whole), where + "/config.json");
  const std::string generation_file = where + "/generation_config.json";
  const Json generation_json =
      generation.empty() ? Json::object() : ParseJson(generation, generation_file);
  const JsonFields generation_fields(generation_json, generation_file);
  const Family& family = FamilyOf(fields);
  RefuseWhatWeDoNotHave(fields, family);

  ModelConfig config = StartOf(family);
  const auto get_int = [&](const char* key, int by_default) {
    return by_default > 0 ? fields.FindInt(key).value_or(by_default) : fields.GetInt(key);
  };
  config.scales = std::move(scales);
  config.vocab_size = get_int("vocab_size", family.default_vocab);
  config.hidden_size = fields.GetInt("hidden_size");
  config.layers = fields.GetInt("num_hidden_layers");
  config.heads = get_int("num_attention_heads", family.default_heads);
  // LFM2's files have the first name.
  const std::optional<int> block = fields.FindInt("block_ff_dim");
  config.ffn_size = block ? *block : fields.GetInt(std::string(family.ffn_key).c_str());
  config.context_length =
      fields.FindInt("max_position_embeddings").value_or(family.default_context);
  const bool kv_heads_default =
      family.default_kv_heads > 0 && !fields.IsNull("num_key_value_heads");
  config.kv_heads = fields.FindInt("num_key_value_heads")
                        .value_or(kv_heads_default ? family.default_kv_heads : config.heads);
  if (config.heads < 1) {
    Throw(ErrorKind::kFormat, "{}: num_attention_heads is {}, expected at least 1", fields.where(),
          config.heads);
  }
  const bool head_dim_default = family.default_head_dim > 0 && !fields.IsNull("head_dim");
  config.head_dim =
      fields.FindInt("head_dim")
          .value_or(head_dim_default ? family.default_head_dim : config.hidden_size / config.heads);
  config.rms_eps = static_cast<float>(
      fields.FindNumber(std::string(family.norm_eps_key).c_str()).value_or(family.default_rms_eps));
  const bool attention_bias =
      family.attention_bias == BiasRule::kConfigured &&
      fields.FindBool("attention_bias").value_or(family.default_attention_bias);
  config.qkv_bias = attention_bias || family.attention_bias == BiasRule::kAlwaysQkv;
  config.output_bias = attention_bias;
  config.mlp_bias = family.mlp_bias_configurable && fields.FindBool("mlp_bias").value_or(false);
  std::optional<bool> tied = whole.FindBool("tie_word_embeddings");
  if (!tied) tied = fields.FindBool("tie_word_embeddings");
  config.tied_embeddings = tied.value_or(family.tied_embeddings);
  config.norms_minus_one = family.norms_minus_one;
  if (config.layers < 1 || config.layers > 4096) {
    Throw(ErrorKind::kFormat, "{}: num_hidden_layers is {}, expected 1 to 4096", fields.where(),
          config.layers);
  }
  if (family.states) ReadStates(fields, family, config);
  ReadLayers(fields, family, config);
  config.attention_sinks = family.attention_sinks;
  ReadExperts(fields, family, config);
  ReadScales(fields, family, config);
  if (family.gemma4) ReadGemma4(fields, family, config);
  ReadSpecialTokens({generation_fields, fields, whole}, family, config);
  ValidateConfig(config, fields.where());
  return config;
}

}  // namespace banyan
