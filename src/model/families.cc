#include "model/families.h"

#include <fmt/format.h>

#include <array>

namespace banyan {
namespace {

// The defaults are those of the Transformers configuration classes.
constexpr std::array<Family, 14> kFamilies = {{
    {.name = "llama",
     .gguf_architecture = "llama",
     .description = "Llama 1 to 3.2, CodeLlama, Yi, SmolLM2, TinyLlama",
     .attention_bias = BiasRule::kConfigured,
     .mlp_bias_configurable = true,
     .gguf_interleaves_qk = true,
     .default_bos = 1,
     .default_eos = 2},
    {.name = "mistral",
     .gguf_architecture = "mistral",  // most Mistral files say "llama", which reads the same
     .description = "Mistral, Mistral-Nemo, Mistral Small 3",
     .part_of = "mistral3",
     .window = WindowRule::kEveryLayer,
     .gguf_interleaves_qk = true,
     .default_kv_heads = 8,
     .default_window = 4096,
     .default_context = 131072,
     .default_bos = 1,
     .default_eos = 2},
    {.name = "qwen2",
     .gguf_architecture = "qwen2",
     .description = "Qwen2, Qwen2.5",
     .attention_bias = BiasRule::kAlwaysQkv,
     .window = WindowRule::kLastLayers,
     .default_kv_heads = 32,
     .default_window = 4096,
     .default_context = 32768},
    {.name = "qwen3",
     .gguf_architecture = "qwen3",
     .description = "Qwen3 dense",
     .qk_norm = QkNorm::kPerHead,
     .attention_bias = BiasRule::kConfigured,
     .window = WindowRule::kLastLayers,
     .default_kv_heads = 32,
     .default_head_dim = 128,
     .default_window = 4096,
     .default_context = 32768},
    {.name = "phi3",
     .gguf_architecture = "phi3",
     .description = "Phi-3, Phi-4",
     .window = WindowRule::kEveryLayer,
     .long_rope_by_other_names = true,
     .default_context = 4096,
     .default_original_context = 4096,
     .default_rms_eps = 1e-5,
     .default_bos = 1,
     .default_eos = 32000},
    {.name = "olmo2",
     .gguf_architecture = "olmo2",
     .description = "OLMo-2",
     .norm_placement = NormPlacement::kAfter,
     .qk_norm = QkNorm::kWhole,
     .attention_bias = BiasRule::kConfigured,
     .default_rms_eps = 1e-5,
     .default_eos = 50279},
    {.name = "olmo3",
     .gguf_architecture = "olmo2",  // with a sliding window
     .description = "OLMo-3",
     .norm_placement = NormPlacement::kAfter,
     .qk_norm = QkNorm::kWhole,
     .attention_bias = BiasRule::kConfigured,
     .window = WindowRule::kAllButEvery,
     .full_every = 4,
     .windows_scale_rope = false,
     .default_window = 4096,
     .default_rms_eps = 1e-5,
     .default_eos = 50279},
    {.name = "gemma3_text",
     .gguf_architecture = "gemma3",
     .description = "Gemma 3",
     .part_of = "gemma3",
     .norm_placement = NormPlacement::kAround,
     .qk_norm = QkNorm::kPerHead,
     .norms_minus_one = true,
     .gate = Gate::kGeluTanh,
     .attention_bias = BiasRule::kConfigured,
     .tied_embeddings = true,
     .window = WindowRule::kAllButEvery,
     .full_every = 6,
     .windows_scale_rope = false,
     .default_theta = 1e6,
     .default_window_theta = 1e4,
     .embedding_sqrt_width = true,
     .default_query_scalar = 256.0,
     .logit_cap_configurable = true,
     .gguf_width_scaled_layers = 62,
     .default_vocab = 262208,
     .default_heads = 8,
     .default_kv_heads = 4,
     .default_head_dim = 256,
     .default_window = 4096,
     .default_context = 131072,
     .default_bos = 2,
     .default_eos = 1},
    {.name = "smollm3",
     .gguf_architecture = "smollm3",
     .description = "SmolLM3",
     .attention_bias = BiasRule::kConfigured,
     .mlp_bias_configurable = true,
     .tied_embeddings = true,
     .window = WindowRule::kNoRopeLayers,
     .no_rope_every = 4,
     .gguf_interleaves_qk = true,
     .default_theta = 2e6,
     .default_kv_heads = 4,
     .default_context = 32768,
     .default_bos = 128000,
     .default_eos = 128001},
    {.name = "granite",
     .gguf_architecture = "granite",
     .description = "Granite 3",
     .attention_bias = BiasRule::kConfigured,
     .mlp_bias_configurable = true,
     .gguf_interleaves_qk = true,
     .multipliers = true,
     .default_bos = 1,
     .default_eos = 2},
    {.name = "granitemoehybrid",
     .gguf_architecture = "granite",  // of attention layers without experts
     .description = "Granite 4 dense",
     .attention_bias = BiasRule::kConfigured,
     .may_be_hybrid = true,
     .gguf_interleaves_qk = true,
     .multipliers = true,
     .ffn_key = "shared_intermediate_size",
     .default_bos = 1,
     .default_eos = 2},
    {.name = "ministral3",
     .gguf_architecture = "mistral3",
     .description = "Ministral 3",
     .part_of = "mistral3",
     .window = WindowRule::kEveryLayer,
     .gguf_interleaves_qk = true,
     .default_rope = R"({"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0,
                         "original_max_position_embeddings": 16384, "mscale": 1.0,
                         "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1})",
     .default_kv_heads = 8,
     .default_head_dim = 128,
     .default_context = 262144,
     .default_rms_eps = 1e-5,
     .default_bos = 1,
     .default_eos = 2},
    {.name = "qwen3_moe",
     .gguf_architecture = "qwen3moe",
     .description = "Qwen3-MoE",
     .qk_norm = QkNorm::kPerHead,
     .attention_bias = BiasRule::kConfigured,
     .experts = {.default_count = 128,
                 .default_chosen = 8,
                 .default_inner = 768,
                 .shares_configurable = true,
                 .layers_configurable = true},
     .window = WindowRule::kSwitched,
     .default_kv_heads = 4,
     .default_window = 4096,
     .default_context = 32768},
    {.name = "gpt_oss",
     .gguf_architecture = "gpt-oss",
     .description = "gpt-oss",
     .attention_bias = BiasRule::kConfigured,
     .default_attention_bias = true,
     .attention_sinks = true,
     .experts = {.default_count = 128,
                 .default_chosen = 4,
                 .inner_key = "intermediate_size",
                 .bias = true,
                 .in_pairs = true,
                 .default_limit = 7.0,
                 .default_slope = 1.702,
                 .may_be_mxfp4 = true},
     .window = WindowRule::kAllButEvery,
     .full_every = 2,
     .gguf_yarn_truncates = false,
     .default_rope = R"({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                         "truncate": false, "original_max_position_embeddings": 4096})",
     .default_theta = 150000.0,
     .default_kv_heads = 8,
     .default_head_dim = 64,
     .default_window = 128,
     .default_context = 131072,
     .default_rms_eps = 1e-5},
}};

}  // namespace

std::span<const Family> Families() { return kFamilies; }

const Family* FindFamily(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (family.name == model_type) return &family;
  }
  return nullptr;
}

const Family* FindFamilyOfGguf(std::string_view architecture) {
  for (const Family& family : kFamilies) {
    if (family.gguf_architecture == architecture) return &family;
  }
  return nullptr;
}

ModelConfig StartOf(const Family& family) {
  ModelConfig config;
  config.family = family.name;
  config.norm_placement = family.norm_placement;
  config.qk_norm = family.qk_norm;
  config.gate = family.gate;
  return config;
}

std::string SupportedFamilies() {
  std::string text;
  for (const Family& family : kFamilies) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", family.name, family.description);
  }
  return text;
}

}  // namespace banyan
