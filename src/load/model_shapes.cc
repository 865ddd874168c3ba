#include "load/model_shapes.h"

#include <cmath>

#include "banyan/model.h"
#include "base/error.h"
#include "model/families.h"

namespace banyan {
namespace {

struct Shape {
  const char* name;
  const char* family;
  int layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
  double theta;
  bool tied;
  int context = 32768;  // tokens; long enough for most benchmarks
  int window = 0;       // of the layers that have one in the family
};

constexpr Shape kShapes[] = {
    {"tiny", "qwen3", 2, 64, 4, 2, 16, 160, 512, 1e4, true},
    {"smollm2-thin", "llama", 4, 576, 9, 3, 64, 1536, 4096, 1e5, true},
    {"qwen3-8b-thin", "qwen3", 4, 4096, 32, 8, 128, 12288, 8192, 1e6, false},
    {"smollm2-135m", "llama", 30, 576, 9, 3, 64, 1536, 49152, 1e5, true},
    {"qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 1e6, true},
    {"qwen3-1.7b", "qwen3", 28, 2048, 16, 8, 128, 6144, 151936, 1e6, true},
    {"qwen3-4b", "qwen3", 36, 2560, 32, 8, 128, 9728, 151936, 1e6, true},
    {"qwen3-8b", "qwen3", 36, 4096, 32, 8, 128, 12288, 151936, 1e6, false},
    {"llama-3.1-8b", "llama", 32, 4096, 32, 8, 128, 14336, 128256, 5e5, false, 131072},
    {"gemma-3-4b", "gemma3_text", 34, 2560, 8, 4, 256, 10240, 262208, 1e6, true, 32768, 1024},
    {"qwen3-14b", "qwen3", 40, 5120, 40, 8, 128, 17408, 151936, 1e6, false},
    {"qwen3-32b", "qwen3", 64, 5120, 64, 8, 128, 25600, 151936, 1e6, false},
    {"phi-4", "phi3", 40, 5120, 40, 10, 128, 17920, 100352, 250000.0, false, 16384},
    {"olmo-2-32b", "olmo2", 64, 5120, 40, 8, 128, 27648, 100352, 5e5, false, 4096},
    {"llama-3.1-70b", "llama", 80, 8192, 64, 8, 128, 28672, 128256, 5e5, false, 131072},
    {"codellama-7b", "llama", 32, 4096, 32, 32, 128, 11008, 32016, 1e6, false},
};

// Shapes of families that have more to say, as their config.json says it.
struct ShapeInWords {
  const char* name;
  const char* config;
};

constexpr ShapeInWords kShapesInWords[] = {
    {"tiny-moe", R"({"model_type": "qwen3_moe", "vocab_size": 512, "hidden_size": 64,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
      "intermediate_size": 160, "moe_intermediate_size": 48, "num_experts": 8,
      "num_experts_per_tok": 2, "norm_topk_prob": true, "mlp_only_layers": [0]})"},
    {"qwen3-30b-a3b", R"({"model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048,
      "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
      "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
      "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": true,
      "rope_theta": 1000000.0})"},
    {"gpt-oss-20b", R"({"model_type": "gpt_oss", "vocab_size": 201088, "hidden_size": 2880,
      "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8,
      "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 32,
      "num_experts_per_tok": 4, "sliding_window": 128})"},
};

ModelConfig ConfigOf(const ShapeInWords& shape) {
  ModelConfig config = ConfigFromHuggingFace(shape.config, "", shape.name);
  config.experts.in_pairs = false;  // random tensors stand in the order of ours
  return config;
}

ModelConfig ConfigOf(const Shape& shape) {
  const Family& family = *FindFamily(shape.family);
  ModelConfig config = StartOf(family);
  config.layers = shape.layers;
  config.hidden_size = shape.hidden;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.ffn_size = shape.ffn;
  config.vocab_size = shape.vocab;
  config.context_length = shape.context;
  config.rms_eps = 1e-6f;
  config.tied_embeddings = shape.tied;
  if (family.embedding_sqrt_width) {
    config.embedding_scale = std::sqrt(static_cast<float>(shape.hidden));
  }
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  config.ropes.resize(family.default_window_theta > 0.0 ? 2 : 1);
  for (RopeConfig& rope : config.ropes) {
    rope.theta = shape.theta;
    rope.rotary_dim = shape.head_dim;
  }
  if (config.ropes.size() > 1) config.ropes[1].theta = family.default_window_theta;
  for (int layer = 0; layer < shape.layers; ++layer) {
    const bool slides = shape.window > 0 && (layer + 1) % family.full_every != 0;
    const int rope = slides ? static_cast<int>(config.ropes.size()) - 1 : 0;
    config.attention.push_back({slides ? shape.window : 0, rope});
  }
  return config;
}

}  // namespace

std::vector<std::string> Model::ModelShapes() {
  std::vector<std::string> names;
  for (const Shape& shape : kShapes) names.push_back(shape.name);
  for (const ShapeInWords& shape : kShapesInWords) names.push_back(shape.name);
  return names;
}

ModelConfig ConfigOfShape(const std::string& name) {
  for (const Shape& shape : kShapes) {
    if (name == shape.name) return ConfigOf(shape);
  }
  for (const ShapeInWords& shape : kShapesInWords) {
    if (name == shape.name) return ConfigOf(shape);
  }
  Throw(ErrorKind::kUsage, "--shape: expected one of {}; found '{}'",
        fmt::join(Model::ModelShapes(), ", "), name);
}

}  // namespace banyan
