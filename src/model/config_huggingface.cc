// config.json and generation_config.json → ModelConfig, with the meaning that Transformers gives
// to absent and null keys. Both styles of rotary parameters are read: `rope_parameters`
// (Transformers 5), and `rope_theta` with `rope_scaling` (before).
#include "base/error.h"
#include "base/json.h"
#include "model/config.h"
#include "model/encoder_config.h"
#include "model/families.h"
#include "model/json_fields.h"

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
    Throw(ErrorKind::kUnsupported, "{}: model_type '{}' is not supported; supported: {}",
          fields.where(), type, SupportedFamilies());
  }
  return *family;
}

RopeKind RopeKindOf(const std::string& type, const Family& family, const std::string& where) {
  if (type == "default") return RopeKind::kPlain;
  if (type == "longrope") return RopeKind::kLongRope;
  if (family.long_rope_by_other_names && (type == "su" || type == "yarn")) {
    return RopeKind::kLongRope;
  }
  if (type == "linear") return RopeKind::kLinear;
  if (type == "llama3") return RopeKind::kLlama3;
  if (type == "yarn") return RopeKind::kYarn;
  Throw(ErrorKind::kUnsupported,
        "{}: rope type '{}' is not supported; supported: default, linear, llama3, yarn, longrope",
        where, type);
}

RopeConfig ReadRope(const JsonFields& fields, const Family& family, const ModelConfig& config) {
  static const Json kNothing = Json::object();
  const auto parameters_in = [&](const char* key) -> const Json* {
    const Json* found = fields.Find(key);
    return found != nullptr && found->is_object() && found->empty() ? nullptr : found;
  };
  const Json* found = parameters_in("rope_scaling");
  if (found == nullptr) found = parameters_in("rope_parameters");
  const JsonFields scaling(found == nullptr ? kNothing : *found,
                           fields.where() + ": rope parameters");
  if (scaling.Find("full_attention") != nullptr || scaling.Find("sliding_attention") != nullptr) {
    Throw(ErrorKind::kUnsupported, "{} differ between layers, which is not supported",
          scaling.where());
  }

  RopeConfig rope;
  std::optional<std::string> type = scaling.FindString("rope_type");
  if (!type) type = scaling.FindString("type");
  rope.kind = RopeKindOf(type.value_or("default"), family, scaling.where());
  std::optional<double> theta = scaling.FindNumber("rope_theta");
  if (!theta) theta = fields.FindNumber("rope_theta");
  rope.theta = theta.value_or(rope.theta);
  std::optional<double> part = scaling.FindNumber("partial_rotary_factor");
  if (!part) part = fields.FindNumber("partial_rotary_factor");
  if (part && !(*part > 0.0 && *part <= 1.0)) {
    Throw(ErrorKind::kFormat, "{}: partial_rotary_factor is {}, expected a number in (0, 1]",
          fields.where(), *part);
  }
  rope.rotary_dim = static_cast<int>(config.head_dim * part.value_or(1.0));
  if (rope.kind == RopeKind::kPlain) return rope;

  // The key beside the rope parameters has precedence over the one among them.
  std::optional<int> original = fields.FindInt("original_max_position_embeddings");
  if (!original && family.default_original_context > 0) original = family.default_original_context;
  if (!original) original = scaling.FindInt("original_max_position_embeddings");
  rope.original_context = original.value_or(config.context_length);

  const std::optional<double> factor = scaling.FindNumber("factor");
  const bool factor_needed = rope.kind == RopeKind::kLinear || rope.kind == RopeKind::kLlama3;
  if (!factor && factor_needed) {
    Throw(ErrorKind::kFormat, "{}: 'factor' is missing", scaling.where());
  }
  if (!factor && rope.original_context <= 0) {
    Throw(ErrorKind::kFormat, "{}: the original context is {}, expected a positive number",
          scaling.where(), rope.original_context);
  }
  rope.factor = factor ? *factor
                       : static_cast<double>(config.context_length) /
                             static_cast<double>(rope.original_context);
  rope.low_freq_factor = scaling.FindNumber("low_freq_factor").value_or(rope.low_freq_factor);
  rope.high_freq_factor = scaling.FindNumber("high_freq_factor").value_or(rope.high_freq_factor);
  const double beta_fast = scaling.FindNumber("beta_fast").value_or(0.0);
  const double beta_slow = scaling.FindNumber("beta_slow").value_or(0.0);
  if (beta_fast != 0.0) rope.beta_fast = beta_fast;
  if (beta_slow != 0.0) rope.beta_slow = beta_slow;
  rope.truncate = scaling.FindBool("truncate").value_or(true);
  rope.attention_factor = scaling.FindNumber("attention_factor");
  rope.mscale = scaling.FindNumber("mscale").value_or(0.0);
  rope.mscale_all_dim = scaling.FindNumber("mscale_all_dim").value_or(0.0);
  rope.short_factor = scaling.NumbersOf("short_factor");
  rope.long_factor = scaling.NumbersOf("long_factor");
  return rope;
}

// REQUIRES: layers is within its limits.
std::vector<int> ReadWindows(const JsonFields& fields, const Family& family, int layers) {
  std::vector<int> windows(static_cast<size_t>(layers), 0);
  if (family.window == WindowRule::kNone) return windows;
  int window = fields.FindInt("sliding_window").value_or(family.default_window);
  if (fields.IsNull("sliding_window")) window = 0;
  int first = 0;
  if (family.window == WindowRule::kLastLayers) {
    if (!fields.FindBool("use_sliding_window").value_or(false)) window = 0;
    first = fields.FindInt("max_window_layers").value_or(28);
  }
  const Json* types = fields.Find("layer_types");
  const bool by_layer = types != nullptr && family.window == WindowRule::kLastLayers;
  if (by_layer && (!types->is_array() || types->size() != windows.size())) {
    Throw(ErrorKind::kFormat, "{}: 'layer_types': expected a list of {} entries", fields.where(),
          layers);
  }
  for (int layer = 0; layer < layers; ++layer) {
    bool slides = layer >= first;
    if (by_layer) {
      const Json& type = (*types)[static_cast<size_t>(layer)];
      slides = type == "sliding_attention";
      if (!slides && type != "full_attention") {
        Throw(ErrorKind::kUnsupported,
              "{}: 'layer_types': layer {} is {}; supported: full_attention, sliding_attention",
              fields.where(), layer, type.dump());
      }
      if (slides && window == 0) {
        Throw(ErrorKind::kFormat, "{}: layer {} slides, but there is no sliding_window",
              fields.where(), layer);
      }
    }
    if (slides) windows[static_cast<size_t>(layer)] = window;
  }
  return windows;
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

void ReadSpecialTokens(const JsonFields& fields, const JsonFields& generation, const Family& family,
                       ModelConfig& config) {
  const auto tokens_of = [&](const char* key, int fallback) {
    if (generation.Find(key) != nullptr) return ReadTokens(generation, key, config.vocab_size);
    if (fields.Find(key) != nullptr || fields.IsNull(key)) {
      return ReadTokens(fields, key, config.vocab_size);
    }
    std::vector<TokenId> tokens;
    if (fallback >= 0 && fallback < config.vocab_size) tokens.push_back(fallback);
    return tokens;
  };
  config.eos = tokens_of("eos_token_id", family.default_eos);
  const std::vector<TokenId> bos = tokens_of("bos_token_id", family.default_bos);
  if (!bos.empty()) config.bos = bos.front();
}

void RefuseWhatWeDoNotHave(const JsonFields& fields) {
  const std::string activation = fields.FindString("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish") {
    Throw(ErrorKind::kUnsupported, "{}: hidden_act '{}' is not supported; expected silu",
          fields.where(), activation);
  }
  if (const Json* quantization = fields.Find("quantization_config"); quantization != nullptr) {
    const JsonFields quantized(*quantization, fields.where() + ": quantization_config");
    Throw(ErrorKind::kUnsupported,
          "{}: weights quantised by '{}' are not supported; use the original or a GGUF file",
          fields.where(), quantized.FindString("quant_method").value_or("an unnamed method"));
  }
}

}  // namespace

ModelConfig ConfigFromHuggingFace(const std::string& text, const std::string& generation,
                                  const std::string& where) {
  const Json json = ParseJson(text, where + "/config.json");
  const JsonFields fields(json, where + "/config.json");
  const std::string generation_file = where + "/generation_config.json";
  const Json generation_json =
      generation.empty() ? Json::object() : ParseJson(generation, generation_file);
  const JsonFields generation_fields(generation_json, generation_file);
  const Family& family = FamilyOf(fields);
  RefuseWhatWeDoNotHave(fields);

  ModelConfig config;
  config.family = family.name;
  config.vocab_size = fields.GetInt("vocab_size");
  config.hidden_size = fields.GetInt("hidden_size");
  config.layers = fields.GetInt("num_hidden_layers");
  config.heads = fields.GetInt("num_attention_heads");
  config.ffn_size = fields.GetInt("intermediate_size");
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
  config.norm_placement = family.norm_placement;
  config.qk_norm = family.qk_norm;
  const bool attention_bias = family.attention_bias == BiasRule::kConfigured &&
                              fields.FindBool("attention_bias").value_or(false);
  config.qkv_bias = attention_bias || family.attention_bias == BiasRule::kAlwaysQkv;
  config.output_bias = attention_bias;
  config.mlp_bias = family.mlp_bias_configurable && fields.FindBool("mlp_bias").value_or(false);
  config.tied_embeddings = fields.FindBool("tie_word_embeddings").value_or(false);
  if (config.layers < 1 || config.layers > 4096) {
    Throw(ErrorKind::kFormat, "{}: num_hidden_layers is {}, expected 1 to 4096", fields.where(),
          config.layers);
  }
  config.windows = ReadWindows(fields, family, config.layers);
  config.rope = ReadRope(fields, family, config);
  ReadSpecialTokens(fields, generation_fields, family, config);
  ValidateConfig(config, fields.where());
  return config;
}

}  // namespace banyan
