#include "model/families.h"

#include <fmt/format.h>

#include <array>

namespace banyan {
namespace {

// The defaults are those of the Transformers configuration classes.
constexpr std::array<Family, 6> kFamilies = {{
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
     .description = "Mistral, Mistral-Nemo",
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

std::string SupportedFamilies() {
  std::string text;
  for (const Family& family : kFamilies) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", family.name, family.description);
  }
  return text;
}

}  // namespace banyan
