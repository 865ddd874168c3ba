#include "model/config_states.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/json.h"

namespace banyan {
namespace {

// The name of a layer's kind, of old files and new ones.
bool KeepsState(const JsonFields& fields, const Json& type) {
  for (const char* state : {"conv", "linear_attention", "mamba"}) {
    if (type == state) return true;
  }
  if (type == "full_attention" || type == "attention") return false;
  Throw(ErrorKind::kUnsupported,
        "{}: a layer of type {}; supported: full_attention, attention, conv, linear_attention, "
        "mamba",
        fields.where(), type.dump());
}

std::vector<bool> ReadStateLayers(const JsonFields& fields, const Family& family, int layers) {
  std::vector<bool> states(static_cast<size_t>(layers));
  const Json* types = fields.Find("layer_types");
  if (types == nullptr) types = fields.Find("layers_block_type");
  if (types != nullptr) {
    if (!types->is_array() || types->size() != states.size()) {
      Throw(ErrorKind::kFormat, "{}: 'layer_types': expected a list of {} entries", fields.where(),
            layers);
    }
    for (size_t layer = 0; layer < states.size(); ++layer) {
      states[layer] = KeepsState(fields, (*types)[layer]);
    }
    return states;
  }
  if (*family.states == StateRule::kDelta) {
    const int interval = fields.FindInt("full_attention_interval").value_or(4);
    CheckRange(interval, 1, kMaxLayers, "full_attention_interval", fields.where());
    for (int layer = 0; layer < layers; ++layer) {
      states[static_cast<size_t>(layer)] = (layer + 1) % interval != 0;
    }
    return states;
  }
  if (*family.states == StateRule::kConvolution) {
    const Json* attention = fields.Find("full_attn_idxs");
    if (attention == nullptr || !attention->is_array()) return states;
    states.assign(states.size(), true);
    for (const Json& entry : *attention) {
      const int layer = fields.IntOf(entry, "full_attn_idxs");
      CheckRange(layer, 0, layers - 1, "an entry of full_attn_idxs", fields.where());
      states[static_cast<size_t>(layer)] = false;
    }
    return states;
  }
  Throw(ErrorKind::kFormat, "{}: 'layer_types': expected a list of {} entries", fields.where(),
        layers);
}

void ReadConvolution(const JsonFields& fields, const ModelConfig& config, StatesConfig& states) {
  states.shape.channels = fields.FindInt("conv_dim").value_or(config.hidden_size);
  states.shape.taps = fields.FindInt("conv_L_cache").value_or(3);
  states.convolution_bias = states.product_bias = fields.FindBool("conv_bias").value_or(false);
}

void ReadDelta(const JsonFields& fields, StatesConfig& states) {
  StateShape& shape = states.shape;
  shape.taps = fields.FindInt("linear_conv_kernel_dim").value_or(4);
  shape.heads = fields.FindInt("linear_num_value_heads").value_or(32);
  shape.key_heads = fields.FindInt("linear_num_key_heads").value_or(16);
  shape.key_dim = fields.FindInt("linear_key_head_dim").value_or(128);
  shape.value_dim = fields.FindInt("linear_value_head_dim").value_or(128);
}

// An entry of a list of two numbers. Transformers 5 writes infinity as an object.
float ReadLimit(const JsonFields& fields, const Json& entry) {
  if (entry.is_number()) return entry.get<float>();
  if (entry.is_object()) {
    const auto infinite = entry.find("__float__");
    if (infinite != entry.end() && *infinite == "Infinity") return INFINITY;
  }
  Throw(ErrorKind::kFormat, "{}: 'time_step_limit': expected two numbers, found {}", fields.where(),
        entry.dump());
}

void ReadMamba(const JsonFields& fields, const ModelConfig& config, StatesConfig& states) {
  StateShape& shape = states.shape;
  shape.taps = fields.FindInt("mamba_d_conv").value_or(4);
  shape.heads = fields.FindInt("mamba_n_heads").value_or(128);
  shape.key_heads = fields.FindInt("mamba_n_groups").value_or(1);
  shape.key_dim = fields.FindInt("mamba_d_state").value_or(256);
  CheckRange(shape.heads, 1, kMaxWidth, "mamba_n_heads", fields.where());
  const int expand = fields.FindInt("mamba_expand").value_or(2);
  CheckRange(expand, 1, kMaxWidth / std::max(1, config.hidden_size), "mamba_expand",
             fields.where());
  const int inner = expand * config.hidden_size;
  const Json* size = fields.Find("mamba_d_head");
  const bool automatic = size == nullptr || *size == "auto";
  shape.value_dim = automatic ? inner / shape.heads : fields.GetInt("mamba_d_head");
  if (std::int64_t{shape.value_dim} * shape.heads != inner) {
    Throw(ErrorKind::kFormat,
          "{}: {} heads of {} values (mamba_n_heads, mamba_d_head), expected {} "
          "values in all (mamba_expand times hidden_size)",
          fields.where(), shape.heads, shape.value_dim, inner);
  }
  states.convolution_bias = fields.FindBool("mamba_conv_bias").value_or(true);
  states.product_bias = fields.FindBool("mamba_proj_bias").value_or(false);
  const Json* limit = fields.Find("time_step_limit");
  if (limit == nullptr) return;
  if (!limit->is_array() || limit->size() != 2) {
    fields.WrongType("time_step_limit", *limit, "a list of two numbers");
  }
  states.least_step = ReadLimit(fields, (*limit)[0]);
  states.most_step = ReadLimit(fields, (*limit)[1]);
}

// LFM2 names a size of which its block has two thirds, rounded up.
void AdjustBlock(const JsonFields& fields, ModelConfig& config) {
  std::int64_t size = config.ffn_size;
  if (fields.FindBool("block_auto_adjust_ff_dim").value_or(true)) {
    size = 2 * size / 3;
    if (const auto factor = fields.FindNumber("block_ffn_dim_multiplier")) {
      size = static_cast<std::int64_t>(*factor * static_cast<double>(size));
    }
    const int multiple = fields.FindInt("block_multiple_of").value_or(256);
    CheckRange(multiple, 1, kMaxWidth, "block_multiple_of", fields.where());
    size = (size + multiple - 1) / multiple * multiple;
  }
  config.ffn_size = static_cast<int>(std::clamp<std::int64_t>(size, 0, kMaxWidth + 1));
}

// Of the convolution, where states have heads; too large a number for sizes that are too large.
int ChannelsOf(const StateShape& shape) {
  const auto sane = [](int size) { return std::clamp<std::int64_t>(size, 0, kMaxWidth); };
  const std::int64_t channels =
      2 * sane(shape.key_heads) * sane(shape.key_dim) + sane(shape.heads) * sane(shape.value_dim);
  return static_cast<int>(std::clamp<std::int64_t>(channels, 0, kMaxWidth + 1));
}

}  // namespace

void ReadStates(const JsonFields& fields, const Family& family, ModelConfig& config) {
  StatesConfig states;
  states.layers = ReadStateLayers(fields, family, config.layers);
  StateShape& shape = states.shape;
  shape.rule = *family.states;
  if (family.adjusts_block) AdjustBlock(fields, config);
  if (std::ranges::none_of(states.layers, [](bool state) { return state; })) return;
  switch (shape.rule) {
    case StateRule::kConvolution:
      ReadConvolution(fields, config, states);
      break;
    case StateRule::kDelta:
      ReadDelta(fields, states);
      break;
    case StateRule::kMamba2:
      ReadMamba(fields, config, states);
      break;
  }
  if (shape.rule != StateRule::kConvolution) shape.channels = ChannelsOf(shape);
  states.by_key_head = family.states_by_key_head;
  config.states = std::move(states);
}

namespace {

constexpr const char* kHeadsForKeys = "attention.head_count_kv";

// A layer without heads for keys keeps a state; blocks after the last layer do not count. Fills
// kv_heads.
std::vector<bool> LayersWithoutKeys(const ArchitectureKeys& keys, int blocks_after,
                                    ModelConfig& config) {
  const int blocks = config.layers + blocks_after;
  std::vector<int> kv_heads =
      keys.FindIntOfLayers(kHeadsForKeys, blocks)
          .value_or(std::vector<int>(static_cast<size_t>(blocks), config.heads));
  kv_heads.resize(static_cast<size_t>(config.layers));
  std::vector<bool> states;
  config.kv_heads = 0;
  for (size_t layer = 0; layer < kv_heads.size(); ++layer) {
    const int heads = kv_heads[layer];
    states.push_back(heads == 0);
    if (heads == 0) continue;
    if (config.kv_heads != 0 && heads != config.kv_heads) {
      Throw(ErrorKind::kUnsupported, "{}: layer {} has {} heads for keys, expected {} or none",
            keys.gguf().path(), layer, heads, config.kv_heads);
    }
    config.kv_heads = heads;
  }
  if (config.kv_heads == 0) config.kv_heads = config.heads;  // no layer has keys
  return states;
}

// Listed, or all but every n-th. Files of Ollama list heads for keys. Fills kv_heads.
std::vector<bool> ListedLayers(const ArchitectureKeys& keys, const Family& family,
                               ModelConfig& config) {
  if (const auto heads = keys.FindList(kHeadsForKeys); heads && std::ranges::count(*heads, 0) > 0) {
    return LayersWithoutKeys(keys, GuessingBlocks(keys, family), config);
  }
  config.kv_heads = keys.FindInt(kHeadsForKeys).value_or(config.heads);
  std::vector<bool> states(static_cast<size_t>(config.layers));
  constexpr const char* kList = "attention.recurrent_layers";
  if (const auto list = keys.FindList(kList)) {
    const size_t expected = states.size() + static_cast<size_t>(GuessingBlocks(keys, family));
    if (list->size() != expected) {
      Throw(ErrorKind::kFormat, "{}: {}: expected {} entries, found {}", keys.gguf().path(), kList,
            expected, list->size());
    }
    for (size_t layer = 0; layer < states.size(); ++layer) states[layer] = (*list)[layer] != 0;
    return states;
  }
  const int interval = keys.FindInt("full_attention_interval").value_or(4);
  CheckRange(interval, 1, kMaxLayers, "full_attention_interval", keys.gguf().path());
  for (size_t layer = 0; layer < states.size(); ++layer) {
    states[layer] = (layer + 1) % static_cast<size_t>(interval) != 0;
  }
  return states;
}

void ReadHeads(const ArchitectureKeys& keys, StateShape& shape) {
  const std::string& path = keys.gguf().path();
  shape.taps = keys.GetInt("ssm.conv_kernel");
  shape.heads = keys.GetInt("ssm.time_step_rank");
  shape.key_heads = keys.GetInt("ssm.group_count");
  shape.key_dim = keys.GetInt("ssm.state_size");
  const int values = keys.GetInt("ssm.inner_size");
  CheckRange(shape.heads, 1, kMaxWidth, "ssm.time_step_rank", path);
  CheckRange(values, 1, kMaxWidth, "ssm.inner_size", path);
  if (values % shape.heads != 0) {
    Throw(ErrorKind::kFormat, "{}: ssm.inner_size is {}, expected a multiple of {} heads", path,
          values, shape.heads);
  }
  shape.value_dim = values / shape.heads;
}

}  // namespace

int GuessingBlocks(const ArchitectureKeys& keys, const Family& family) {
  return family.states == StateRule::kDelta ? keys.FindInt("nextn_predict_layers").value_or(0) : 0;
}

void ReadStates(const ArchitectureKeys& keys, const Family& family, ModelConfig& config) {
  StatesConfig states;
  StateShape& shape = states.shape;
  shape.rule = *family.states;
  states.layers = shape.rule == StateRule::kDelta ? ListedLayers(keys, family, config)
                                                  : LayersWithoutKeys(keys, 0, config);
  const auto first = std::ranges::find(states.layers, true) - states.layers.begin();
  if (first == config.layers) return;
  const auto has = [&](const char* name) {
    return keys.gguf().tensors().Has(fmt::format("blk.{}.{}", first, name));
  };
  if (shape.rule == StateRule::kConvolution) {
    shape.channels = config.hidden_size;
    shape.taps = keys.GetInt("shortconv.l_cache");
    states.convolution_bias = states.product_bias = has("shortconv.conv.bias");
  } else {
    ReadHeads(keys, shape);
    shape.channels = ChannelsOf(shape);
    shape.tiled = family.gguf_tiles_heads;
    states.convolution_bias = has("ssm_conv1d.bias");
    states.product_bias = has("ssm_in.bias");
    states.by_key_head = family.states_by_key_head && has("ssm_in.weight");
  }
  config.states = std::move(states);
}

}  // namespace banyan
