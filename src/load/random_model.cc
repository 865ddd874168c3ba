// Models with random weights at real shapes, for benchmarks and for tests of sizes that no fixture
// has. The backend makes bf16 weights in its own memory; other types are made as a file would hold
// them and go through the ordinary loader.
#include <cmath>
#include <cstring>
#include <map>

#include "banyan/model.h"
#include "base/error.h"
#include "load/kernel_options.h"
#include "load/model_copies.h"
#include "load/model_parts.h"
#include "model/families.h"
#include "model/weights.h"
#include "tensor/narrow_floats.h"

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
  config.experts.in_pairs = false;  // random tensors are in our own order
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
    if (name == shape.name) return ConfigOf(shape);
  }
  Throw(ErrorKind::kUsage, "--shape: expected one of {}; found '{}'",
        fmt::join(Model::ModelShapes(), ", "), name);
}

// --- Random weights as a file would hold them ----------------------------------------------------

struct RandomTensors {
  std::vector<std::vector<std::byte>> memory;
  TensorStore store;  // views into memory
};

// A small, fast generator: quality matters little here, equal values on every machine do.
class RandomBits {
 public:
  std::uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15ull;
};

class TensorMaker {
 public:
  explicit TensorMaker(DType matrix_type) : matrix_type_(matrix_type) {}

  // Values of about 1 / sqrt(columns), so that activations keep their size.
  void AddMatrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
    const DType type = columns % TraitsOf(matrix_type_).block == 0 ? matrix_type_ : DType::kBF16;
    std::vector<std::byte>& bytes =
        memory_.emplace_back(static_cast<size_t>(rows) * RowBytes(type, columns));
    const float scale = 1.0f / std::sqrt(static_cast<float>(columns));
    if (type == DType::kQ8_0) {
      FillBlocks(bytes, 34, scale / 74.0f);  // codes are uniform in ±128
    } else if (type == DType::kQ4_0) {
      FillBlocks(bytes, 18, scale / 4.6f);  // in ±8
    } else if (type == DType::kMXFP4) {
      FillExponents(bytes, 17, scale / 3.0f);  // floats up to ±6
    } else {
      FillPlain(bytes, type, scale);
    }
    store_.Add({name, type, {rows, columns}, bytes}, "random weights");
  }

  void AddOnes(const std::string& name, std::int64_t size) { AddEqual(name, {size}, 1.0f); }
  void AddZeros(const std::string& name, std::vector<std::int64_t> shape) {
    AddEqual(name, std::move(shape), 0.0f);
  }

  RandomTensors Take() { return {std::move(memory_), std::move(store_)}; }

 private:
  void AddEqual(const std::string& name, std::vector<std::int64_t> shape, float value) {
    size_t size = 1;
    for (const std::int64_t extent : shape) size *= static_cast<size_t>(extent);
    std::vector<std::byte>& bytes = memory_.emplace_back(size * 4);
    for (size_t i = 0; i < size; ++i) std::memcpy(bytes.data() + 4 * i, &value, 4);
    store_.Add({name, DType::kF32, std::move(shape), bytes}, "random weights");
  }

  // Blocks of an exponent and random codes.
  void FillExponents(std::vector<std::byte>& bytes, size_t block_bytes, float scale) {
    const auto exponent = static_cast<std::byte>(127 + std::ilogb(scale));
    for (size_t block = 0; block < bytes.size(); block += block_bytes) {
      bytes[block] = exponent;
      for (size_t i = 1; i < block_bytes; i += 8) {
        const std::uint64_t bits = random_.Next();
        std::memcpy(bytes.data() + block + i, &bits, 8);
      }
    }
  }

  // Blocks of a half scale and random codes.
  void FillBlocks(std::vector<std::byte>& bytes, size_t block_bytes, float scale) {
    const std::uint16_t block_scale = FloatToF16(scale);
    for (size_t block = 0; block < bytes.size(); block += block_bytes) {
      std::memcpy(bytes.data() + block, &block_scale, 2);
      for (size_t i = 2; i < block_bytes; i += 8) {
        const std::uint64_t bits = random_.Next();
        std::memcpy(bytes.data() + block + i, &bits, 8);
      }
    }
  }

  void FillPlain(std::vector<std::byte>& bytes, DType type, float scale) {
    const size_t size = type == DType::kF32 ? 4 : 2;
    for (size_t i = 0; i < bytes.size(); i += size) {
      const auto code = static_cast<float>(static_cast<std::int16_t>(random_.Next() >> 48));
      const float value = code / 18918.0f * scale;  // uniform with variance scale²
      if (type == DType::kF32) {
        std::memcpy(bytes.data() + i, &value, 4);
      } else {
        const std::uint16_t half = FloatToBF16(value);
        std::memcpy(bytes.data() + i, &half, 2);
      }
    }
  }

  DType matrix_type_;
  RandomBits random_;
  std::vector<std::vector<std::byte>> memory_;
  TensorStore store_;
};

void AddExperts(const ModelConfig& config, const std::string& prefix, TensorMaker& tensors) {
  const ExpertsConfig& experts = config.experts;
  const std::int64_t hidden = config.hidden_size, inner = experts.inner_size;
  tensors.AddMatrix(prefix + "gate.weight", experts.count, hidden);
  for (int e = 0; e < experts.count; ++e) {
    const std::string expert = prefix + fmt::format("experts.{}.", e);
    tensors.AddMatrix(expert + "gate_proj.weight", inner, hidden);
    tensors.AddMatrix(expert + "up_proj.weight", inner, hidden);
    tensors.AddMatrix(expert + "down_proj.weight", hidden, inner);
  }
  if (!experts.bias) return;
  tensors.AddZeros(prefix + "gate.bias", {experts.count});
  tensors.AddZeros(prefix + "experts.gate_up_proj_bias", {experts.count, 2 * inner});
  tensors.AddZeros(prefix + "experts.down_proj_bias", {experts.count, hidden});
}

std::vector<std::string> NormNames(NormPlacement placement) {
  const TensorNames& names = kHuggingFaceNames;
  switch (placement) {
    case NormPlacement::kBefore:
      return {names.norm_before_attention, names.norm_before_ffn};
    case NormPlacement::kAfter:
      return {names.norm_after_attention, names.norm_after_ffn};
    case NormPlacement::kAround:
      return {names.norm_before_attention, names.norm_after_attention, names.second_norm_before_ffn,
              names.norm_after_ffn};
  }
  return {};
}

void AddTensors(const ModelConfig& config, TensorMaker& tensors) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t query = static_cast<std::int64_t>(config.heads) * config.head_dim;
  const std::int64_t key = static_cast<std::int64_t>(config.kv_heads) * config.head_dim;
  tensors.AddMatrix("model.embed_tokens.weight", config.vocab_size, hidden);
  for (int i = 0; i < config.layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    for (const std::string& norm : NormNames(config.norm_placement)) {
      tensors.AddOnes(layer + norm + ".weight", hidden);
    }
    tensors.AddMatrix(layer + "self_attn.q_proj.weight", query, hidden);
    tensors.AddMatrix(layer + "self_attn.k_proj.weight", key, hidden);
    tensors.AddMatrix(layer + "self_attn.v_proj.weight", key, hidden);
    tensors.AddMatrix(layer + "self_attn.o_proj.weight", hidden, query);
    if (config.qk_norm != QkNorm::kNone) {
      const bool whole = config.qk_norm == QkNorm::kWhole;
      tensors.AddOnes(layer + "self_attn.q_norm.weight", whole ? query : config.head_dim);
      tensors.AddOnes(layer + "self_attn.k_norm.weight", whole ? key : config.head_dim);
    }
    if (config.qkv_bias) {
      tensors.AddZeros(layer + "self_attn.q_proj.bias", {query});
      tensors.AddZeros(layer + "self_attn.k_proj.bias", {key});
      tensors.AddZeros(layer + "self_attn.v_proj.bias", {key});
    }
    if (config.output_bias) tensors.AddZeros(layer + "self_attn.o_proj.bias", {hidden});
    if (config.attention_sinks) tensors.AddZeros(layer + "self_attn.sinks", {config.heads});
    if (config.HasExperts(i)) {
      AddExperts(config, layer + "mlp.", tensors);
      continue;
    }
    tensors.AddMatrix(layer + "mlp.gate_proj.weight", config.ffn_size, hidden);
    tensors.AddMatrix(layer + "mlp.up_proj.weight", config.ffn_size, hidden);
    tensors.AddMatrix(layer + "mlp.down_proj.weight", hidden, config.ffn_size);
  }
  tensors.AddOnes("model.norm.weight", hidden);
  if (!config.tied_embeddings) tensors.AddMatrix("lm_head.weight", config.vocab_size, hidden);
}

// All tensors of the model, under Hugging Face's names; matrices in `matrix_type`, norms of ones.
RandomTensors MakeRandomTensors(const ModelConfig& config, DType matrix_type) {
  TensorMaker tensors(matrix_type);
  AddTensors(config, tensors);
  return tensors.Take();
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
      expert.gate_up = MakeMatrix(2 * inner, hidden);
      expert.down = MakeMatrix(hidden, inner);
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
  for (const ShapeInWords& shape : kShapesInWords) names.push_back(shape.name);
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
  if (type == DType::kBF16) {
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
