#include "model/layers_huggingface.h"

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace banyan {
namespace {

constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

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

// `scaling`: the rotary parameters of one kind of layer; what they lack is sought beside them.
class RopeReader {
 public:
  RopeReader(const JsonFields& fields, const Family& family, const ModelConfig& config)
      : fields_(fields), family_(family), config_(config) {}

  RopeConfig Read(const Json& parameters, double theta) const {
    const JsonFields scaling(parameters, fields_.where() + ": rope parameters");
    RopeConfig rope;
    std::optional<std::string> type = scaling.FindString("rope_type");
    if (!type) type = scaling.FindString("type");
    rope.kind = RopeKindOf(type.value_or("default"), family_, scaling.where());
    rope.theta = scaling.FindNumber("rope_theta").value_or(theta);
    std::optional<double> part = scaling.FindNumber("partial_rotary_factor");
    if (!part) part = fields_.FindNumber("partial_rotary_factor");
    if (part && !(*part > 0.0 && *part <= 1.0)) {
      Throw(ErrorKind::kFormat, "{}: partial_rotary_factor is {}, expected a number in (0, 1]",
            fields_.where(), *part);
    }
    rope.rotary_dim = static_cast<int>(config_.head_dim * part.value_or(1.0));
    rope.query_beta = scaling.FindNumber("llama_4_scaling_beta").value_or(0.0);
    if (rope.kind == RopeKind::kPlain && rope.query_beta == 0.0) return rope;
    ReadScaling(scaling, rope);
    return rope;
  }

 private:
  void ReadScaling(const JsonFields& scaling, RopeConfig& rope) const {
    // The key beside the rope parameters has precedence over the one among them.
    std::optional<int> original = fields_.FindInt("original_max_position_embeddings");
    if (!original && family_.default_original_context > 0) {
      original = family_.default_original_context;
    }
    if (!original) original = scaling.FindInt("original_max_position_embeddings");
    rope.original_context = original.value_or(config_.context_length);
    if (rope.kind == RopeKind::kPlain) return;

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
                         : static_cast<double>(config_.context_length) /
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
  }

  const JsonFields& fields_;
  const Family& family_;
  const ModelConfig& config_;
};

// The rope of layers that see all keys, and of layers with a window.
struct RopesByKind {
  RopeConfig full, sliding;
  bool differ = false;
};

RopesByKind ReadRopes(const JsonFields& fields, const Family& family, const ModelConfig& config) {
  const Json nothing = Json::object();
  const Json by_default =
      family.default_rope.empty() ? nothing : ParseJson(family.default_rope, "a family's default");
  const auto parameters_in = [&](const char* key) -> const Json* {
    const Json* found = fields.Find(key);
    return found != nullptr && found->is_object() && found->empty() ? nullptr : found;
  };
  const Json* found = parameters_in("rope_scaling");
  if (found == nullptr) found = parameters_in("rope_parameters");
  if (found == nullptr) found = &by_default;

  const double theta = fields.FindNumber("rope_theta").value_or(family.default_theta);
  double window_theta = theta;
  if (family.default_window_theta > 0.0) {
    window_theta = fields.FindNumber("rope_local_base_freq").value_or(family.default_window_theta);
  }
  const RopeReader reader(fields, family, config);
  const auto of_kind = [&](const char* kind) -> const Json& {
    const auto entry = found->find(kind);
    return entry == found->end() || entry->is_null() ? nothing : *entry;
  };
  if (found->is_object() && (found->contains(kFull) || found->contains(kSliding))) {
    return {reader.Read(of_kind(kFull), theta), reader.Read(of_kind(kSliding), window_theta), true};
  }
  const RopeConfig full = reader.Read(*found, theta);
  if (family.windows_scale_rope) return {full, full, false};
  if (family.default_window_theta == 0.0) window_theta = full.theta;
  return {full, reader.Read(nothing, window_theta), true};
}

// A list with an entry for each layer; null when the key is absent.
const Json* ListOfLayers(const JsonFields& fields, const char* key, int layers) {
  const Json* list = fields.Find(key);
  if (list != nullptr && (!list->is_array() || list->size() != static_cast<size_t>(layers))) {
    Throw(ErrorKind::kFormat, "{}: '{}': expected a list of {} entries", fields.where(), key,
          layers);
  }
  return list;
}

std::vector<bool> ReadTurned(const JsonFields& fields, const Family& family, int layers) {
  std::vector<bool> turned(static_cast<size_t>(layers), true);
  if (family.may_be_hybrid && fields.FindString("position_embedding_type") != "rope") {
    turned.assign(turned.size(), false);
  }
  if (family.unturned_every == 0) return turned;
  const int every = fields.FindInt("no_rope_layer_interval").value_or(family.unturned_every);
  if (every < 1) {
    Throw(ErrorKind::kFormat, "{}: no_rope_layer_interval is {}, expected a positive number",
          fields.where(), every);
  }
  const Json* list = ListOfLayers(fields, "no_rope_layers", layers);
  for (size_t layer = 0; layer < turned.size(); ++layer) {
    if (list == nullptr) {
      turned[layer] = (layer + 1) % static_cast<size_t>(every) != 0;
    } else {
      turned[layer] = fields.IntOf((*list)[layer], "no_rope_layers") != 0;  // 1: with RoPE
    }
  }
  return turned;
}

// Whether a layer of `types` slides.
bool Slides(const JsonFields& fields, const Json& types, size_t layer) {
  const Json& type = types[layer];
  if (type == kSliding) return true;
  if (type == kFull) return false;
  Throw(ErrorKind::kUnsupported, "{}: 'layer_types': layer {} is {}; supported: {}, {}",
        fields.where(), layer, type.dump(), kFull, kSliding);
}

std::vector<bool> SlidingByRule(const JsonFields& fields, const Family& family,
                                const std::vector<bool>& turned) {
  const bool wanted = fields.FindBool("use_sliding_window").value_or(false);
  std::vector<bool> slides(turned.size(), family.window == WindowRule::kEveryLayer ||
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
    } else if (family.window == WindowRule::kUnturned) {
      slides[layer] = wanted && !turned[layer];
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
                          const std::vector<bool>& turned) {
  if (family.window == WindowRule::kNone) return {std::vector<bool>(turned.size(), false), 0};
  int window = fields.FindInt("sliding_window").value_or(family.default_window);
  if (fields.IsNull("sliding_window")) window = 0;
  const bool switched = family.window == WindowRule::kLastLayers;
  if (switched && !fields.FindBool("use_sliding_window").value_or(false)) window = 0;
  const bool alike =
      family.window == WindowRule::kEveryLayer || family.window == WindowRule::kSwitched;
  const Json* types =
      alike ? nullptr : ListOfLayers(fields, "layer_types", static_cast<int>(turned.size()));
  std::vector<bool> slides = SlidingByRule(fields, family, turned);
  const bool window_needed = types != nullptr || family.window == WindowRule::kAllButEvery;
  for (size_t layer = 0; layer < slides.size(); ++layer) {
    if (types != nullptr) slides[layer] = Slides(fields, *types, layer);
    if (slides[layer] && window_needed && window == 0) {
      Throw(ErrorKind::kFormat, "{}: layer {} slides, but there is no sliding_window",
            fields.where(), layer);
    }
  }
  return {slides, window};
}

}  // namespace

void ReadLayers(const JsonFields& fields, const Family& family, ModelConfig& config) {
  const std::vector<bool> turned = ReadTurned(fields, family, config.layers);
  const auto [slides, window] = ReadSliding(fields, family, turned);
  const RopesByKind ropes = ReadRopes(fields, family, config);
  config.ropes.assign(1, ropes.full);
  if (ropes.differ) config.ropes.push_back(ropes.sliding);
  for (size_t layer = 0; layer < turned.size(); ++layer) {
    const int rope = ropes.differ && slides[layer] ? 1 : 0;
    config.attention.push_back({slides[layer] ? window : 0, turned[layer] ? rope : kNoRope});
  }
}

}  // namespace banyan
