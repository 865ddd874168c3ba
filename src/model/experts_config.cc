#include "model/experts_config.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"

namespace banyan {
namespace {

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

int IntOf(const GgufFile& gguf, const std::string& key) {
  const std::uint64_t value = gguf.GetUint(key);
  return static_cast<int>(
      std::min<std::uint64_t>(value, std::numeric_limits<int>::max()));  // refused later
}

// Mixtures that choose, scale or share in other ways than those of our families.
void RefuseOtherMixtures(const GgufFile& gguf, const std::string& prefix) {
  for (const char* key :
       {"expert_shared_count", "expert_group_count", "leading_dense_block_count"}) {
    const std::uint64_t value = gguf.FindUint(prefix + key).value_or(0);
    const std::uint64_t usual = std::string_view(key) == "expert_group_count" ? 1 : 0;
    if (value <= usual) continue;
    Throw(ErrorKind::kUnsupported, "{}: {}{} is {}, which is not supported", gguf.path(), prefix,
          key, value);
  }
  const double scale = gguf.FindFloat(prefix + "expert_weights_scale").value_or(1.0);
  if (scale != 0.0 && scale != 1.0) {
    Throw(ErrorKind::kUnsupported, "{}: {}expert_weights_scale is {}, which is not supported",
          gguf.path(), prefix, scale);
  }
}

}  // namespace

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
}

// Files of these families say nothing of shares: they are always of the chosen experts, unless a
// key of other families does. A layer without a router is a dense one.
void ReadExperts(const GgufFile& gguf, const Family& family, ModelConfig& config) {
  const std::string prefix = std::string(family.gguf_architecture) + ".";
  const ExpertFamily& known = family.experts;
  if (known.default_count == 0) {
    if (gguf.FindUint(prefix + "expert_count").value_or(0) == 0) return;
    Throw(ErrorKind::kUnsupported,
          "{}: a mixture of experts of architecture '{}', which is not supported", gguf.path(),
          family.gguf_architecture);
  }
  ExpertsConfig& experts = config.experts;
  experts.count = IntOf(gguf, prefix + "expert_count");
  if (experts.count == 0) return;
  RefuseOtherMixtures(gguf, prefix);
  experts.rule.chosen = IntOf(gguf, prefix + "expert_used_count");
  experts.inner_size = IntOf(gguf, prefix + "expert_feed_forward_length");
  if (!gguf.FindBool(prefix + "expert_weights_norm").value_or(true)) {
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
}

}  // namespace banyan
