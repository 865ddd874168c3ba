// config.json and generation_config.json → ModelConfig, with the meaning that Transformers gives
// to absent and null keys. What differs between layers is read in layers_huggingface.cc.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "model/config.h"
#include "model/encoder_config.h"
#include "model/experts_config.h"
#include "model/families.h"
#include "model/json_fields.h"
#include "model/layers_huggingface.h"
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

// Of families whose layers may be other things than attention and a feed-forward block.
void CheckHybrid(const JsonFields& fields, int layers) {
  if (const int experts = fields.FindInt("num_local_experts").value_or(8); experts != 0) {
    Throw(ErrorKind::kUnsupported, "{}: {} experts (num_local_experts); supported: none",
          fields.where(), experts);
  }
  const Json* types = fields.Find("layer_types");
  if (types == nullptr) types = fields.Find("layers_block_type");
  if (types == nullptr || !types->is_array() || types->size() != static_cast<size_t>(layers)) {
    Throw(ErrorKind::kFormat, "{}: 'layer_types': expected a list of {} entries", fields.where(),
          layers);
  }
  for (const Json& type : *types) {
    if (type == "attention" || type == "full_attention") continue;
    Throw(ErrorKind::kUnsupported, "{}: a layer of type {}; supported: attention", fields.where(),
          type.dump());
  }
}

void RefuseWhatWeDoNotHave(const JsonFields& fields, const Family& family) {
  CheckActivation(fields, family);
  if (fields.FindBool("use_bidirectional_attention").value_or(false)) {
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
  config.ffn_size = fields.GetInt(std::string(family.ffn_key).c_str());
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
  config.rms_eps =
      static_cast<float>(fields.FindNumber("rms_norm_eps").value_or(family.default_rms_eps));
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
  if (family.may_be_hybrid) CheckHybrid(fields, config.layers);
  ReadLayers(fields, family, config);
  config.attention_sinks = family.attention_sinks;
  ReadExperts(fields, family, config);
  ReadScales(fields, family, config);
  ReadSpecialTokens({generation_fields, fields, whole}, family, config);
  ValidateConfig(config, fields.where());
  return config;
}

}  // namespace banyan
