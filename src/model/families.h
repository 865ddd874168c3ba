// What the files of each family leave unsaid, as one table. A new family is one entry here, an
// oracle under the tests, and, where the network itself differs, a field of ModelConfig that
// forward.cc reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace banyan {

// Which layers have a sliding window when the configuration carries no `layer_types`.
enum class WindowRule {
  kNone,        // no window, whatever the configuration says
  kEveryLayer,  // `sliding_window` unless null
  kLastLayers,  // if `use_sliding_window`: layers from `max_window_layers` on
};

// Which biases `attention_bias` switches.
enum class BiasRule {
  kNever,       // no biases
  kAlwaysQkv,   // Q, K, V always, the output never
  kConfigured,  // all four as `attention_bias` says
};

// Defaults hold when the key is absent from config.json.
struct Family {
  std::string_view name;               // the config.json `model_type`, and ModelConfig::family
  std::string_view gguf_architecture;  // `general.architecture`
  std::string_view description;        // for messages: which models these are
  NormPlacement norm_placement = NormPlacement::kBefore;
  QkNorm qk_norm = QkNorm::kNone;
  BiasRule attention_bias = BiasRule::kNever;
  bool mlp_bias_configurable = false;  // `mlp_bias` is read
  WindowRule window = WindowRule::kNone;
  bool gguf_interleaves_qk = false;       // see ModelConfig::interleaved_qk_rows
  bool long_rope_by_other_names = false;  // scaling types "su" and "yarn" mean LongRoPE
  int default_kv_heads = 0;               // 0: as many as heads
  int default_head_dim = 0;               // 0: hidden_size / heads
  int default_window = 0;                 // 0: none
  int default_context = 2048;
  int default_original_context = 0;  // LongRoPE; 0: the context
  double default_rms_eps = 1e-6;
  int default_bos = -1, default_eos = -1;  // -1: none
};

std::span<const Family> Families();

// Null when there is no such family.
const Family* FindFamily(std::string_view model_type);
const Family* FindFamilyOfGguf(std::string_view architecture);

// "llama (Llama 1 to 3.2, …), qwen2 (…), …", for messages.
std::string SupportedFamilies();

}  // namespace banyan
