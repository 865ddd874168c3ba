// What the files of each family leave unsaid, as one table. A new family is one entry here, an
// oracle under the tests, and, where the network itself differs, a field of ModelConfig that
// forward.cc reads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace banyan {

// Which layers have a sliding window when the configuration carries no `layer_types`.
enum class WindowRule {
  kNone,          // no window, whatever the configuration says
  kEveryLayer,    // `sliding_window` unless null
  kLastLayers,    // if `use_sliding_window`: layers from `max_window_layers` on
  kSwitched,      // if `use_sliding_window`: every layer
  kAllButEvery,   // all but every n-th: `sliding_window_pattern`, or Family::full_every
  kNoRopeLayers,  // if `use_sliding_window`: layers without RoPE
};

// Which biases `attention_bias` switches.
enum class BiasRule {
  kNever,       // no biases
  kAlwaysQkv,   // Q, K, V always, the output never
  kConfigured,  // all four as `attention_bias` says
};

// Of families whose layers may have mixtures of experts. Defaults are of config.json.
struct ExpertFamily {
  int default_count = 0;  // 0: the family has no experts
  int default_chosen = 0;
  std::string_view inner_key = "moe_intermediate_size";
  int default_inner = 0;  // 0: must be given
  // Shares are a softmax over all experts unless `norm_topk_prob`; otherwise of the chosen ones.
  bool shares_configurable = false;
  bool layers_configurable = false;  // `decoder_sparse_step`, `mlp_only_layers`
  bool bias = false;
  bool in_pairs = false;       // see ExpertsConfig
  double default_limit = 0.0;  // `swiglu_limit` and `swiglu_alpha`; 0: not read
  double default_slope = 0.0;
  bool may_be_mxfp4 = false;  // `quantization_config` may say so
  // See ExpertsConfig; a gated block is of `shared_expert_intermediate_size`.
  BlockBeside beside = BlockBeside::kNone;
  // Shares are logistic; `num_dense_layers`, `use_expert_bias`, `routed_scaling_factor` are read.
  bool logistic = false;
};

// Defaults hold when the key is absent from config.json.
struct Family {
  std::string_view name;                 // the config.json `model_type`, and ModelConfig::family
  std::string_view gguf_architecture{};  // `general.architecture`; empty: no such files are read
  std::string_view description;          // for messages: which models these are
  // The `model_type` of files that hold other networks too (images): the family's configuration is
  // their `text_config`. Empty: none.
  std::string_view part_of{};
  NormPlacement norm_placement = NormPlacement::kBefore;
  QkNorm qk_norm = QkNorm::kNone;
  bool norms_minus_one = false;  // see ModelConfig; never in GGUF
  bool gemma4 = false;           // config_gemma4.h; norms of values, scales of layers
  int default_layer_input = 0;   // `hidden_size_per_layer_input` of gemma4
  Gate gate = Gate::kSilu;
  BiasRule attention_bias = BiasRule::kNever;
  bool default_attention_bias = false;  // kConfigured
  bool attention_sinks = false;
  std::optional<StateRule> states{};  // some layers may keep states: config_states.h
  bool states_by_key_head = false;    // see StatesConfig; in GGUF only in old files
  bool gguf_tiles_heads = false;      // StateShape::tiled in GGUF
  bool adjusts_block = false;         // the feed-forward size is made of the one in the file: LFM2
  bool output_gate = false;           // see ModelConfig
  ExpertFamily experts{};
  bool mlp_bias_configurable = false;  // `mlp_bias` is read
  bool tied_embeddings = false;        // unless `tie_word_embeddings` says otherwise
  WindowRule window = WindowRule::kNone;
  int full_every = 0;  // kAllButEvery
  bool may_be_hybrid =
      false;              // layers may be of other kinds, and RoPE is `position_embedding_type`
  int no_rope_every = 0;  // every n-th layer has no RoPE, unless `no_rope_layers` …
  bool gguf_interleaves_qk = false;       // see ModelConfig::interleaved_qk_rows
  bool long_rope_by_other_names = false;  // scaling types "su" and "yarn" mean LongRoPE
  bool gguf_yarn_truncates = true;        // RopeConfig::truncate, which GGUF has no key for
  bool windows_scale_rope = true;         // layers with a window have the scaling of RoPE too
  std::string_view default_rope{};        // `rope_parameters`, where the file has none
  double default_rotary_part = 1.0;       // `partial_rotary_factor`
  double default_theta = 10000.0;
  double default_window_theta = 0.0;  // of layers with a window; 0: as of the others
  // Scalars: embeddings times √hidden_size; `query_pre_attn_scalar` with its default (0: not read);
  // Granite's four multipliers; `final_logit_softcapping`.
  bool embedding_sqrt_width = false;
  double default_query_scalar = 0.0;
  bool multipliers = false;
  bool logit_cap_configurable = false;
  // GGUF files of this many layers scale queries by hidden_size / heads instead (no key says so).
  int gguf_width_scaled_layers = 0;
  std::string_view ffn_key = "intermediate_size";
  std::string_view norm_eps_key = "rms_norm_eps";
  int default_vocab = 0, default_heads = 0;  // 0: must be given
  int default_kv_heads = 0;                  // 0: as many as heads
  int default_head_dim = 0;                  // 0: hidden_size / heads
  int default_window = 0;                    // 0: none
  int default_context = 2048;
  int default_original_context = 0;  // LongRoPE; 0: the context
  double default_rms_eps = 1e-6;
  int default_bos = -1, default_eos = -1;  // -1: none
};

std::span<const Family> Families();

// Null when there is no such family. Several families may share an architecture in GGUF: the first
// one is given, and ConfigFromGguf tells them apart.
const Family* FindFamily(std::string_view model_type);
const Family* FindFamilyOfGguf(std::string_view architecture);

// A configuration with everything that the family alone decides. norms_minus_one is false; readers
// set it for files that store norms so.
ModelConfig StartOf(const Family& family);

// "llama (Llama 1 to 3.2, …), qwen2 (…), …", for messages.
std::string SupportedFamilies();
// Of these, the ones that are read from GGUF too.
std::string SupportedInGguf();

}  // namespace banyan
