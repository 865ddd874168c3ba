// Tables are float32 in the order in which Transformers evaluates them, so that angles agree with
// the models' reference to the last bits (a relative error of 1e-7 is 0.01 rad at position 100
// 000); powers are taken in double and rounded once.
#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>

#include "base/error.h"

namespace banyan {
namespace {

// theta^(2i / rotary_dim), [rotary_dim/2]
std::vector<float> Wavelengths(const RopeConfig& rope) {
  std::vector<float> powers(static_cast<size_t>(rope.rotary_dim / 2));
  const double theta = static_cast<float>(rope.theta);
  for (size_t i = 0; i < powers.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope.rotary_dim);
    powers[i] = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  }
  return powers;
}

std::vector<float> Reciprocals(std::vector<float> values) {
  for (float& value : values) value = 1.0f / value;
  return values;
}

// High frequencies stay, low ones are divided by the factor, between them a linear blend.
void ScaleLlama3(const RopeConfig& rope, std::vector<float>& frequencies) {
  const auto factor = static_cast<float>(rope.factor);
  const auto context = static_cast<float>(rope.original_context);
  const auto low_factor = static_cast<float>(rope.low_freq_factor);
  const auto low_wavelength = static_cast<float>(rope.original_context / rope.low_freq_factor);
  const auto high_wavelength = static_cast<float>(rope.original_context / rope.high_freq_factor);
  const auto range = static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  constexpr auto kTwoPi = static_cast<float>(2.0 * std::numbers::pi);
  for (float& frequency : frequencies) {
    const float wavelength = (1.0f / frequency) * kTwoPi;
    if (wavelength > low_wavelength) {
      frequency = frequency / factor;
    } else if (!(wavelength < high_wavelength)) {
      const float smooth = ((1.0f / wavelength) * context - low_factor) / range;
      frequency = (1.0f - smooth) * frequency / factor + smooth * frequency;
    }
  }
}

// The (fractional) pair index whose wave turns `rotations` times within the original context.
double CorrectionDimension(const RopeConfig& rope, double rotations) {
  return rope.rotary_dim * std::log(rope.original_context / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(rope.theta));
}

std::vector<float> YarnFrequencies(const RopeConfig& rope, const std::vector<float>& wavelengths) {
  double low = CorrectionDimension(rope, rope.beta_fast);
  double high = CorrectionDimension(rope, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rope.rotary_dim - 1));
  if (low == high) high += 0.001;  // no division by zero
  std::vector<float> frequencies(wavelengths.size());
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
        1.0f);
    const float extrapolated = 1.0f - ramp;  // share of the unscaled frequency
    const float unscaled = 1.0f / wavelengths[i];
    const float scaled = 1.0f / (static_cast<float>(rope.factor) * wavelengths[i]);
    frequencies[i] = scaled * (1.0f - extrapolated) + unscaled * extrapolated;
  }
  return frequencies;
}

double YarnMagnitude(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double YarnScale(const RopeConfig& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.mscale != 0.0 && rope.mscale_all_dim != 0.0) {
    return YarnMagnitude(rope.factor, rope.mscale) /
           YarnMagnitude(rope.factor, rope.mscale_all_dim);
  }
  return YarnMagnitude(rope.factor, 1.0);
}

double LongRopeScale(const RopeConfig& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.factor <= 1.0) return 1.0;
  return std::sqrt(1.0 + std::log(rope.factor) / std::log(rope.original_context));
}

// --- Parameters of config.json -------------------------------------------------------------------

RopeKind RopeKindOf(const std::string& type, const Family& family, const std::string& where) {
  if (type == "default") return RopeKind::kPlain;
  if (type == "longrope") return RopeKind::kLongRope;
  if (family.long_rope_by_other_names && (type == "su" || type == "yarn")) {
    return RopeKind::kLongRope;
  }
  if (type == "linear") return RopeKind::kLinear;
  if (type == "llama3") return RopeKind::kLlama3;
  if (type == "yarn") return RopeKind::kYarn;
  if (type == "proportional") return RopeKind::kProportional;
  Throw(ErrorKind::kUnsupported,
        "{}: rope type '{}' is not supported; supported: default, linear, llama3, yarn, longrope, "
        "proportional",
        where, type);
}

// Reads the RoPE parameters of one kind of layer. Missing ones are looked up in the configuration
// around them.
class RopeReader {
 public:
  RopeReader(const JsonFields& fields, const Family& family, const ModelConfig& config)
      : fields_(fields), family_(family), config_(config) {}

  RopeConfig Read(const Json& parameters, double theta, int head_dim) const {
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
    rope.rotary_dim = static_cast<int>(head_dim * part.value_or(family_.default_rotary_part));
    if (rope.kind == RopeKind::kProportional) {  // frequencies of a whole head; some pairs rest
      rope.rotated_pairs = static_cast<int>(part.value_or(1.0) * head_dim / 2.0);
      rope.rotary_dim = head_dim;
    }
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
    if (rope.kind == RopeKind::kProportional) {
      rope.factor = factor.value_or(1.0);
      return;
    }
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

}  // namespace

RopeTable MakeRopeTable(const RopeConfig& rope, int context_length) {
  BANYAN_CHECK(rope.rotary_dim > 0 && rope.rotary_dim % 2 == 0);
  const std::vector<float> wavelengths = Wavelengths(rope);
  RopeTable table;
  table.inverse_frequency = Reciprocals(wavelengths);
  if (rope.query_beta != 0.0) {
    table.query_beta = static_cast<float>(rope.query_beta);
    table.query_interval = rope.original_context;
  }
  switch (rope.kind) {
    case RopeKind::kPlain:
      break;
    case RopeKind::kLinear:
      for (float& f : table.inverse_frequency) f = f / static_cast<float>(rope.factor);
      break;
    case RopeKind::kLlama3:
      ScaleLlama3(rope, table.inverse_frequency);
      break;
    case RopeKind::kProportional:
      for (size_t i = 0; i < wavelengths.size(); ++i) {
        const bool rotated = i < static_cast<size_t>(rope.rotated_pairs);
        float& frequency = table.inverse_frequency[i];
        frequency = rotated ? frequency / static_cast<float>(rope.factor) : 0.0f;
      }
      break;
    case RopeKind::kYarn:
      table.inverse_frequency = YarnFrequencies(rope, wavelengths);
      table.scale = static_cast<float>(YarnScale(rope));
      break;
    case RopeKind::kLongRope: {
      const auto& factors =
          context_length > rope.original_context ? rope.long_factor : rope.short_factor;
      BANYAN_CHECK(factors.size() == wavelengths.size());
      for (size_t i = 0; i < wavelengths.size(); ++i) {
        table.inverse_frequency[i] = 1.0f / (static_cast<float>(factors[i]) * wavelengths[i]);
      }
      table.scale = static_cast<float>(LongRopeScale(rope));
      break;
    }
  }
  if (!rope.frequency_divisors.empty()) {
    BANYAN_CHECK(rope.frequency_divisors.size() == wavelengths.size());
    for (size_t i = 0; i < wavelengths.size(); ++i) {
      table.inverse_frequency[i] /= static_cast<float>(rope.frequency_divisors[i]);
    }
  }
  return table;
}

RopeConfig ExtendWithYarn(const RopeConfig& rope, double factor, int original_context) {
  if (!(factor >= 1.0) || !std::isfinite(factor) || original_context < 1) {
    Throw(ErrorKind::kUsage,
          "YaRN: factor {} and original context {}: expected at least 1 and a positive number",
          factor, original_context);
  }
  RopeConfig extended;
  extended.kind = RopeKind::kYarn;
  extended.theta = rope.theta;
  extended.rotary_dim = rope.rotary_dim;
  extended.factor = factor;
  extended.original_context = original_context;
  return extended;
}

RopesByKind ReadRopes(const JsonFields& fields, const Family& family, const ModelConfig& config,
                      int full_head_dim) {
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
  if (found->is_object() &&
      (found->contains(kFullAttention) || found->contains(kSlidingAttention))) {
    return {reader.Read(of_kind(kFullAttention), theta, full_head_dim),
            reader.Read(of_kind(kSlidingAttention), window_theta, config.head_dim), true};
  }
  const RopeConfig full = reader.Read(*found, theta, full_head_dim);
  if (family.windows_scale_rope) return {full, full, false};
  if (family.default_window_theta == 0.0) window_theta = full.theta;
  return {full, reader.Read(nothing, window_theta, config.head_dim), true};
}

}  // namespace banyan
