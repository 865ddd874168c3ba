// Models with random weights at real shapes, for benchmarks and for tests of sizes that no fixture
// has. The backend makes bf16 weights in its own memory; other types, and layers of other kinds,
// are made as a file would hold them and go through the ordinary loader.
#include <cmath>
#include <map>

#include "banyan/model.h"
#include "base/error.h"
#include "base/json.h"
#include "load/kernel_options.h"
#include "load/model_copies.h"
#include "load/model_parts.h"
#include "load/random_tensors.h"
#include "model/families.h"
#include "model/weights.h"

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
    {"codellama-13b", "llama", 40, 5120, 40, 40, 128, 13824, 32016, 1e6, false},
    {"codellama-34b", "llama", 48, 8192, 64, 8, 128, 22016, 32000, 1e6, false},
    {"yi-6b", "llama", 32, 4096, 32, 4, 128, 11008, 64000, 5e6, false, 200000},
    {"llama-160m", "llama", 12, 768, 12, 12, 64, 3072, 32000, 1e4, false, 2048},
    {"sheared-llama-1.3b", "llama", 24, 2048, 16, 16, 128, 5504, 32000, 1e4, false, 4096},
};

// Shapes of families that have more to say, as their config.json says it.
struct ShapeInWords {
  const char* name;
  const char* config;
  // What differs in the shape NAME-thin, which has few layers; null: there is none.
  const char* thin = nullptr;
};

constexpr ShapeInWords kShapesInWords[] = {
    {"tiny-moe",
     R"({"model_type": "qwen3_moe", "vocab_size": 512, "hidden_size": 64,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
      "intermediate_size": 160, "moe_intermediate_size": 48, "num_experts": 8,
      "num_experts_per_tok": 2, "norm_topk_prob": true, "mlp_only_layers": [0]})"},
    {"qwen3-30b-a3b",
     R"({"model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048,
      "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
      "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
      "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": true,
      "rope_theta": 1000000.0})"},
    {"gpt-oss-20b",
     R"({"model_type": "gpt_oss", "vocab_size": 201088, "hidden_size": 2880,
      "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8,
      "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 32,
      "num_experts_per_tok": 4, "sliding_window": 128})"},
    {"qwen3.5-9b",
     R"({"model_type": "qwen3_5_text", "vocab_size": 248320, "hidden_size": 4096,
      "num_hidden_layers": 32, "num_attention_heads": 16, "num_key_value_heads": 4,
      "head_dim": 256, "intermediate_size": 12288, "rope_theta": 10000000.0})",
     R"({"num_hidden_layers": 4, "vocab_size": 8192})"},
    {"qwen3.5-35b-a3b",
     R"({"model_type": "qwen3_5_moe_text", "vocab_size": 248320,
      "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16,
      "num_key_value_heads": 2, "head_dim": 256, "moe_intermediate_size": 512,
      "shared_expert_intermediate_size": 512, "num_experts": 256, "num_experts_per_tok": 8,
      "rope_theta": 10000000.0})",
     R"({"num_hidden_layers": 4, "vocab_size": 8192, "num_experts": 32})"},
    {"gemma4-e4b",
     R"({"model_type": "gemma4_text", "vocab_size": 262144, "hidden_size": 2560,
      "num_hidden_layers": 42, "num_attention_heads": 8, "num_key_value_heads": 2,
      "head_dim": 256, "global_head_dim": 512, "intermediate_size": 10240, "sliding_window": 512,
      "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144,
      "num_kv_shared_layers": 18, "final_logit_softcapping": 30.0, "tie_word_embeddings": true,
      "max_position_embeddings": 131072})",
     R"({"num_hidden_layers": 12, "num_kv_shared_layers": 6, "vocab_size": 8192,
         "vocab_size_per_layer_input": 8192})"},
    {"gemma4-31b",
     R"({"model_type": "gemma4_text", "vocab_size": 262144, "hidden_size": 5376,
      "num_hidden_layers": 60, "num_attention_heads": 32, "num_key_value_heads": 16,
      "head_dim": 256, "global_head_dim": 512, "num_global_key_value_heads": 4,
      "attention_k_eq_v": true, "intermediate_size": 21504, "sliding_window": 1024,
      "hidden_size_per_layer_input": 0, "final_logit_softcapping": 30.0,
      "tie_word_embeddings": true, "max_position_embeddings": 262144})",
     R"({"num_hidden_layers": 6, "vocab_size": 8192})"},
};

constexpr std::string_view kThin = "-thin";

ModelConfig ConfigOf(const ShapeInWords& shape, bool thin) {
  Json fields = Json::parse(shape.config);
  if (thin) fields.merge_patch(Json::parse(shape.thin));
  ModelConfig config = ConfigFromHuggingFace(fields.dump(), "", shape.name);
  config.experts.in_pairs = false;  // random tensors are in our own order
  config.norms_minus_one = false;
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

// Throws kUsage with the list of names.
ModelConfig ConfigOfShape(const std::string& name) {
  for (const Shape& shape : kShapes) {
    if (name == shape.name) return ConfigOf(shape);
  }
  for (const ShapeInWords& shape : kShapesInWords) {
    if (name == shape.name) return ConfigOf(shape, false);
    if (shape.thin != nullptr && name == std::string(shape.name).append(kThin)) {
      return ConfigOf(shape, true);
    }
  }
  Throw(ErrorKind::kUsage, "--shape: expected one of {}; found '{}'",
        fmt::join(Model::ModelShapes(), ", "), name);
}

// --- Random weights made by the backend ----------------------------------------------------------

// All matrices in bf16, each from a seed of its own, and norms of ones.
class WeightMaker {
 public:
  WeightMaker(const ModelConfig& config, Kernels& kernels) : config_(config), kernels_(kernels) {}

  ModelWeights Make(const LoadProgress& progress) {
    const std::int64_t hidden = config_.hidden_size;
    weights_.embedding = MakeMatrix(config_.vocab_size, hidden);
    weights_.final_norm = Ones(hidden);
    for (int layer = 0; layer < config_.layers; ++layer) {
      weights_.layers.push_back(MakeLayer(layer));
      // All layers weigh the same.
      if (progress) progress(weights_.bytes, weights_.bytes / (layer + 1) * config_.layers);
    }
    weights_.logits =
        config_.tied_embeddings ? weights_.embedding : MakeMatrix(config_.vocab_size, hidden);
    return std::move(weights_);
  }

 private:
  LayerWeights MakeLayer(int number) {
    const std::int64_t hidden = config_.hidden_size;
    const std::int64_t head_dim = config_.head_dim;
    LayerWeights layer;
    if (config_.norm_placement != NormPlacement::kAfter) {
      layer.attention_norm = layer.ffn_norm = Ones(hidden);
    }
    if (config_.norm_placement != NormPlacement::kBefore) {
      layer.attended_norm = layer.fed_norm = Ones(hidden);
    }
    layer.qkv = MakeProductMatrix((config_.heads + 2 * config_.kv_heads) * head_dim, hidden);
    if (config_.qk_norm == QkNorm::kPerHead) layer.query_norm = layer.key_norm = Ones(head_dim);
    if (config_.qk_norm == QkNorm::kWhole) {
      layer.query_norm = Ones(config_.heads * head_dim);
      layer.key_norm = Ones(config_.kv_heads * head_dim);
    }
    layer.output = MakeProductMatrix(hidden, config_.heads * head_dim);
    if (config_.qkv_bias) layer.qkv_bias = Zeros(layer.qkv->rows);
    if (config_.output_bias) layer.output_bias = Zeros(hidden);
    if (config_.attention_sinks) layer.sinks = Zeros(config_.heads);
    if (config_.HasExperts(number)) {
      MakeExperts(layer);
      return layer;
    }
    layer.gate_up = MakeProductMatrix(2 * static_cast<std::int64_t>(config_.ffn_size), hidden);
    layer.down = MakeProductMatrix(hidden, config_.ffn_size);
    return layer;
  }

  void MakeExperts(LayerWeights& layer) {
    const ExpertsConfig& experts = config_.experts;
    const std::int64_t hidden = config_.hidden_size, inner = experts.inner_size;
    layer.router = MakeMatrix(experts.count, hidden);
    if (experts.bias) layer.router_bias = Zeros(experts.count);
    const std::int64_t bytes_before = weights_.bytes, parameters_before = weights_.parameters;
    std::vector<ExpertWeights> all(static_cast<size_t>(experts.count));
    for (ExpertWeights& expert : all) {
      expert.gate_up = MakeProductMatrix(2 * inner, hidden);
      expert.down = MakeProductMatrix(hidden, inner);
      if (!experts.bias) continue;
      expert.gate_up_bias = Zeros(2 * inner);
      expert.down_bias = Zeros(hidden);
    }
    layer.experts = kernels_.GatherExperts(std::move(all), {});
    const std::int64_t resting = experts.count - experts.rule.chosen;
    weights_.resting_bytes += (weights_.bytes - bytes_before) / experts.count * resting;
    weights_.resting_parameters +=
        (weights_.parameters - parameters_before) / experts.count * resting;
  }

  // Values of about 1 / sqrt(columns), so that activations keep their size.
  MatrixRef MakeMatrix(std::int64_t rows, std::int64_t columns) {
    const float deviation = 1.0f / std::sqrt(static_cast<float>(columns));
    MatrixRef matrix = kernels_.RandomMatrix({rows, columns, ++seed_, deviation});
    weights_.bytes += matrix->bytes;
    weights_.parameters += rows * columns;
    return matrix;
  }

  // For products alone.
  MatrixRef MakeProductMatrix(std::int64_t rows, std::int64_t columns) {
    MatrixRef matrix = MakeMatrix(rows, columns);
    weights_.bytes -= matrix->bytes;
    matrix = kernels_.ForProducts(std::move(matrix));
    weights_.bytes += matrix->bytes;
    return matrix;
  }

  VectorRef Ones(std::int64_t size) {
    return kernels_.LoadVector(std::vector<float>(static_cast<size_t>(size), 1.0f));
  }

  VectorRef Zeros(std::int64_t size) {
    return kernels_.LoadVector(std::vector<float>(static_cast<size_t>(size), 0.0f));
  }

  const ModelConfig& config_;
  Kernels& kernels_;
  std::uint64_t seed_ = 0;
  ModelWeights weights_;
};

// Of which WeightMaker has all parts.
bool HasUsualLayers(const ModelConfig& config) {
  return !config.states.any() && !config.output_gate && config.layer_input_size == 0 &&
         !config.value_norm && !config.layer_scales && !config.experts.HasBlockBeside() &&
         KvShapeOf(config).by_layer.empty();
}

DType ParseWeightType(const std::string& name) {
  const std::map<std::string, DType> types = {{"bf16", DType::kBF16},
                                              {"q8_0", DType::kQ8_0},
                                              {"q4_0", DType::kQ4_0},
                                              {"mxfp4", DType::kMXFP4},
                                              {"f32", DType::kF32}};
  const auto it = types.find(name);
  if (it == types.end()) {
    Throw(ErrorKind::kUsage, "--weights: expected bf16, q8_0, q4_0, mxfp4 or f32, found '{}'",
          name);
  }
  return it->second;
}

}  // namespace

std::vector<std::string> Model::ModelShapes() {
  std::vector<std::string> names;
  for (const Shape& shape : kShapes) names.push_back(shape.name);
  for (const ShapeInWords& shape : kShapesInWords) {
    names.push_back(shape.name);
    if (shape.thin != nullptr) names.push_back(std::string(shape.name).append(kThin));
  }
  return names;
}

std::shared_ptr<Model> Model::Random(const std::string& name, const std::string& weight_type,
                                     const LoadOptions& options) {
  if (!options.adapter.empty() || !options.adapters.empty()) {
    Throw(ErrorKind::kUsage, "--adapter: random weights take no adapter");
  }
  std::vector<std::unique_ptr<Parts>> copies = MakeCopies(options);
  if (copies.size() > 1) {
    Throw(ErrorKind::kUsage, "--device {}: random weights are for one device", options.device);
  }
  Parts* const parts = copies.front().get();
  parts->config = ConfigOfShape(name);
  parts->path = "random weights, " + name;
  const DType type = ParseWeightType(weight_type);
  // Layers of other kinds are made as a file's.
  if (type == DType::kBF16 && HasUsualLayers(parts->config)) {
    parts->weights = WeightMaker(parts->config, *parts->kernels).Make(options.progress);
  } else {
    const RandomTensors tensors = MakeRandomTensors(parts->config, type);
    parts->weights = LoadWeights(parts->config, tensors.store, TensorNaming::kHuggingFace,
                                 *parts->kernels, options.progress);
  }
  parts->SetIdentity(fmt::format(
      R"({{"weights":"{}, {}","device":"{}","precision":"{}","kv type":"{}","fast":{}}})",
      parts->path, weight_type, BackendOf(options.device), options.precision,
      KvTypeName(parts->kernels->options().kv_type), options.fast));
  return std::shared_ptr<Model>(new Model(std::move(copies)));
}

}  // namespace banyan
