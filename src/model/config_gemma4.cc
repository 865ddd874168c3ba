#include "model/config_gemma4.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "model/rope.h"

namespace banyan {
namespace {

constexpr int kDefaultFullHeadDim = 512;

bool Slides(const ModelConfig& config, int layer) { return config.Attention(layer).window > 0; }

// What `per_layer_config` says of a layer, by its number or its kind; null: nothing.
const Json* EntryOf(const JsonFields& fields, const std::string& layer, const char* kind) {
  const Json* entries = fields.Find("per_layer_config");
  if (entries == nullptr) return nullptr;
  if (!entries->is_object()) fields.WrongType("per_layer_config", *entries, "an object");
  for (const std::string& name : {layer, std::string(kind)}) {
    const auto found = entries->find(name);
    if (found != entries->end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

// Heads of a layer: those of `per_layer_config`, which files of Transformers 5 have, or those of
// `global_head_dim` and `num_global_key_value_heads`.
void ReadHeads(const JsonFields& fields, int layer, ModelConfig& config) {
  LayerAttention& attention = config.attention[static_cast<size_t>(layer)];
  const bool slides = attention.window > 0;
  if (fields.Find("per_layer_config") != nullptr) {
    const Json* entry =
        EntryOf(fields, std::to_string(layer), slides ? kSlidingAttention : kFullAttention);
    if (entry == nullptr) return;
    const JsonFields own(*entry, fields.where() + ": per_layer_config");
    attention.head_dim = own.FindInt("head_dim").value_or(0);
    attention.kv_heads = own.FindInt("num_key_value_heads").value_or(0);
    return;
  }
  if (slides) return;
  attention.head_dim = fields.FindInt("global_head_dim").value_or(kDefaultFullHeadDim);
  if (attention.keys_are_values || !fields.Find("attention_k_eq_v")) {
    attention.kv_heads = fields.FindInt("num_global_key_value_heads").value_or(0);
  }
}

void ReadMixture(const JsonFields& fields, ModelConfig& config) {
  if (!fields.FindBool("enable_moe_block").value_or(false)) return;
  ExpertsConfig& experts = config.experts;
  experts.count = fields.GetInt("num_experts");
  experts.rule.chosen = fields.GetInt("top_k_experts");
  experts.rule.gate.function = config.gate;
  experts.inner_size = fields.GetInt("moe_intermediate_size");
  experts.beside = BlockBeside::kNormed;
  experts.layers.assign(static_cast<size_t>(config.layers), true);
}

// The number that most of the model's layers have, as they have a window.
int UsualOf(const ModelConfig& config, const std::vector<int>& of_layers) {
  for (int layer = 0; layer < config.layers; ++layer) {
    if (Slides(config, layer)) return of_layers[static_cast<size_t>(layer)];
  }
  return of_layers.front();
}

void ReadHeads(const ArchitectureKeys& keys, ModelConfig& config) {
  const std::vector<int> kv_heads =
      keys.FindIntOfLayers("attention.head_count_kv", config.layers)
          .value_or(std::vector<int>(static_cast<size_t>(config.layers), config.heads));
  const int full = config.head_dim;
  config.kv_heads = UsualOf(config, kv_heads);
  config.head_dim = keys.FindInt("attention.key_length_swa").value_or(full);
  const int values = keys.FindInt("attention.value_length_swa").value_or(config.head_dim);
  if (values != config.head_dim) {
    Throw(ErrorKind::kUnsupported, "{}: keys of {} and values of {}: expected equal lengths",
          keys.gguf().path(), config.head_dim, values);
  }
  for (int layer = 0; layer < config.layers; ++layer) {
    LayerAttention& attention = config.attention[static_cast<size_t>(layer)];
    const int own = kv_heads[static_cast<size_t>(layer)];
    if (own != config.kv_heads) attention.kv_heads = own;
    if (attention.window > 0) continue;
    if (full != config.head_dim) attention.head_dim = full;
    const std::string block = fmt::format("blk.{}.", layer);
    attention.keys_are_values = keys.gguf().tensors().Has(block + "attn_k.weight") &&
                                !keys.gguf().tensors().Has(block + "attn_v.weight");
  }
}

void ReadMixture(const ArchitectureKeys& keys, ModelConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.count = keys.FindInt("expert_count").value_or(0);
  if (experts.count == 0) return;
  experts.rule.chosen = keys.GetInt("expert_used_count");
  experts.rule.gate.function = config.gate;
  experts.inner_size = keys.GetInt("expert_feed_forward_length");
  experts.beside = BlockBeside::kNormed;
  experts.layers.assign(static_cast<size_t>(config.layers), true);
}

}  // namespace

int FullHeadDim(const JsonFields& fields, const Family& family, const ModelConfig& config) {
  if (!family.gemma4) return config.head_dim;
  if (fields.Find("per_layer_config") == nullptr) {
    return fields.FindInt("global_head_dim").value_or(kDefaultFullHeadDim);
  }
  // The last layer has no window in any configuration.
  const Json* entry = EntryOf(fields, std::to_string(config.layers - 1), kFullAttention);
  if (entry == nullptr) return config.head_dim;
  return JsonFields(*entry, fields.where() + ": per_layer_config")
      .FindInt("head_dim")
      .value_or(config.head_dim);
}

void ShareLastKeys(int reading, const std::string& where, ModelConfig& config) {
  CheckRange(reading, 0, config.layers - 1, "the number of layers that read the keys of others",
             where);
  const int first = config.layers - reading;
  for (int layer = first; layer < config.layers; ++layer) {
    int owner = first - 1;
    while (owner >= 0 && Slides(config, owner) != Slides(config, layer)) --owner;
    if (owner < 0) {
      Throw(ErrorKind::kFormat, "{}: layer {} has no layer of its kind before it to read keys of",
            where, layer);
    }
    config.attention[static_cast<size_t>(layer)].keys_of = owner;
  }
}

void ReadGemma4(const JsonFields& fields, const Family& family, ModelConfig& config) {
  const bool keys_are_values = fields.FindBool("attention_k_eq_v").value_or(false);
  for (int layer = 0; layer < config.layers; ++layer) {
    LayerAttention& attention = config.attention[static_cast<size_t>(layer)];
    attention.keys_are_values = keys_are_values && attention.window == 0;
    ReadHeads(fields, layer, config);
  }
  const int reading = fields.FindInt("num_kv_shared_layers").value_or(0);
  ShareLastKeys(reading, fields.where(), config);
  if (fields.FindBool("use_double_wide_mlp").value_or(false)) {
    for (int layer = 0; layer < config.layers; ++layer) {
      config.ffn_sizes.push_back(config.HasKeys(layer) ? config.ffn_size : 2 * config.ffn_size);
    }
  }
  if (!fields.IsNull("hidden_size_per_layer_input")) {
    config.layer_input_size =
        fields.FindInt("hidden_size_per_layer_input").value_or(family.default_layer_input);
  }
  if (config.layer_input_size > 0) {
    config.layer_input_vocab =
        fields.FindInt("vocab_size_per_layer_input").value_or(config.vocab_size);
  }
  config.attention_scale = 1.0f;
  ReadMixture(fields, config);
}

void ReadGemma4(const ArchitectureKeys& keys, ModelConfig& config) {
  const std::string& path = keys.gguf().path();
  ReadHeads(keys, config);
  ShareLastKeys(keys.FindInt("attention.shared_kv_layers").value_or(0), path, config);
  const auto ffn_sizes = keys.FindIntOfLayers("feed_forward_length", config.layers);
  if (!ffn_sizes) {
    Throw(ErrorKind::kFormat, "{}: key 'gemma4.feed_forward_length' is missing", path);
  }
  config.ffn_size = ffn_sizes->front();
  const bool alike = std::ranges::all_of(*ffn_sizes, [&](int s) { return s == config.ffn_size; });
  if (!alike) config.ffn_sizes = *ffn_sizes;
  config.layer_input_size = keys.FindInt("embedding_length_per_layer_input").value_or(0);
  if (config.layer_input_size > 0) {
    config.layer_input_vocab = static_cast<int>(std::min<std::int64_t>(
        keys.gguf().tensors().GetAnyShape("per_layer_token_embd.weight").rows(), kMaxWidth));
  }
  config.attention_scale = 1.0f;
  ReadMixture(keys, config);
}

}  // namespace banyan
