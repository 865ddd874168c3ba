// Models with random weights at real shapes: for benchmarks and for tests of sizes that no fixture
// has. bf16 weights are made by the backend, where they will stay; other types are made as a file
// would hold them and go through the ordinary loader.
#include <cmath>
#include <cstring>
#include <map>

#include "base/error.h"
#include "formats/tensor_store.h"
#include "load/kernel_options.h"
#include "load/model_parts.h"
#include "tensor/float16.h"

namespace banyan {
namespace {

struct Shape {
  const char* name;
  const char* family;
  int layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
  double theta;
  bool tied;
  int context = 32768;  // tokens; long enough for most benchmarks
};

constexpr Shape kShapes[] = {
    {"tiny", "qwen3", 2, 64, 4, 2, 16, 160, 512, 1e4, true},
    {"smollm2-135m", "llama", 30, 576, 9, 3, 64, 1536, 49152, 1e5, true},
    {"qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 1e6, true},
    {"qwen3-1.7b", "qwen3", 28, 2048, 16, 8, 128, 6144, 151936, 1e6, true},
    {"qwen3-4b", "qwen3", 36, 2560, 32, 8, 128, 9728, 151936, 1e6, true},
    {"qwen3-8b", "qwen3", 36, 4096, 32, 8, 128, 12288, 151936, 1e6, false},
    {"llama-3.1-8b", "llama", 32, 4096, 32, 8, 128, 14336, 128256, 5e5, false, 131072},
    {"codellama-7b", "llama", 32, 4096, 32, 32, 128, 11008, 32016, 1e6, false},
};

ModelConfig ConfigOf(const Shape& shape) {
  ModelConfig config;
  config.family = shape.family;
  config.layers = shape.layers;
  config.hidden_size = shape.hidden;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.ffn_size = shape.ffn;
  config.vocab_size = shape.vocab;
  config.context_length = shape.context;
  config.rms_eps = 1e-6f;
  config.qk_norm = config.family == "qwen3" ? QkNorm::kPerHead : QkNorm::kNone;
  config.tied_embeddings = shape.tied;
  config.windows.assign(static_cast<size_t>(shape.layers), 0);
  config.rope.theta = shape.theta;
  config.rope.rotary_dim = shape.head_dim;
  return config;
}

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

class RandomTensors {
 public:
  explicit RandomTensors(DType matrix_type) : matrix_type_(matrix_type) {}

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
    } else {
      FillPlain(bytes, type, scale);
    }
    store_.Add({name, type, {rows, columns}, bytes}, "random weights");
  }

  void AddOnes(const std::string& name, std::int64_t size) {
    std::vector<std::byte>& bytes = memory_.emplace_back(static_cast<size_t>(size) * 4);
    const float one = 1.0f;
    for (std::int64_t i = 0; i < size; ++i) std::memcpy(bytes.data() + 4 * i, &one, 4);
    store_.Add({name, DType::kF32, {size}, bytes}, "random weights");
  }

  const TensorStore& store() const { return store_; }

 private:
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

void AddTensors(const ModelConfig& config, RandomTensors& tensors) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t query = static_cast<std::int64_t>(config.heads) * config.head_dim;
  const std::int64_t key = static_cast<std::int64_t>(config.kv_heads) * config.head_dim;
  tensors.AddMatrix("model.embed_tokens.weight", config.vocab_size, hidden);
  for (int i = 0; i < config.layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    tensors.AddOnes(layer + "input_layernorm.weight", hidden);
    tensors.AddMatrix(layer + "self_attn.q_proj.weight", query, hidden);
    tensors.AddMatrix(layer + "self_attn.k_proj.weight", key, hidden);
    tensors.AddMatrix(layer + "self_attn.v_proj.weight", key, hidden);
    tensors.AddMatrix(layer + "self_attn.o_proj.weight", hidden, query);
    if (config.qk_norm == QkNorm::kPerHead) {
      tensors.AddOnes(layer + "self_attn.q_norm.weight", config.head_dim);
      tensors.AddOnes(layer + "self_attn.k_norm.weight", config.head_dim);
    }
    tensors.AddOnes(layer + "post_attention_layernorm.weight", hidden);
    tensors.AddMatrix(layer + "mlp.gate_proj.weight", config.ffn_size, hidden);
    tensors.AddMatrix(layer + "mlp.up_proj.weight", config.ffn_size, hidden);
    tensors.AddMatrix(layer + "mlp.down_proj.weight", hidden, config.ffn_size);
  }
  tensors.AddOnes("model.norm.weight", hidden);
  if (!config.tied_embeddings) tensors.AddMatrix("lm_head.weight", config.vocab_size, hidden);
}

// All matrices in bf16, each from a seed of its own, and norms of ones.
class WeightMaker {
 public:
  WeightMaker(const ModelConfig& config, Kernels& kernels) : config_(config), kernels_(kernels) {}

  ModelWeights Make(const LoadProgress& progress) {
    const std::int64_t hidden = config_.hidden_size;
    weights_.embedding = MakeMatrix(config_.vocab_size, hidden);
    weights_.final_norm = Ones(hidden);
    for (int layer = 0; layer < config_.layers; ++layer) {
      weights_.layers.push_back(MakeLayer());
      // All layers weigh the same.
      if (progress) progress(weights_.bytes, weights_.bytes / (layer + 1) * config_.layers);
    }
    weights_.logits =
        config_.tied_embeddings ? weights_.embedding : MakeMatrix(config_.vocab_size, hidden);
    return std::move(weights_);
  }

 private:
  LayerWeights MakeLayer() {
    const std::int64_t hidden = config_.hidden_size;
    const std::int64_t head_dim = config_.head_dim;
    LayerWeights layer;
    layer.attention_norm = Ones(hidden);
    layer.qkv = MakeMatrix((config_.heads + 2 * config_.kv_heads) * head_dim, hidden);
    if (config_.qk_norm == QkNorm::kPerHead) layer.query_norm = layer.key_norm = Ones(head_dim);
    layer.output = MakeMatrix(hidden, config_.heads * head_dim);
    layer.ffn_norm = Ones(hidden);
    layer.gate_up = MakeMatrix(2 * static_cast<std::int64_t>(config_.ffn_size), hidden);
    layer.down = MakeMatrix(hidden, config_.ffn_size);
    return layer;
  }

  // Values of about 1 / sqrt(columns), so that activations keep their size.
  MatrixRef MakeMatrix(std::int64_t rows, std::int64_t columns) {
    const float deviation = 1.0f / std::sqrt(static_cast<float>(columns));
    MatrixRef matrix = kernels_.RandomMatrix({rows, columns, ++seed_, deviation});
    weights_.bytes += matrix->bytes;
    weights_.parameters += rows * columns;
    return matrix;
  }

  VectorRef Ones(std::int64_t size) {
    return kernels_.LoadVector(std::vector<float>(static_cast<size_t>(size), 1.0f));
  }

  const ModelConfig& config_;
  Kernels& kernels_;
  std::uint64_t seed_ = 0;
  ModelWeights weights_;
};

DType ParseWeightType(const std::string& name) {
  const std::map<std::string, DType> types = {
      {"bf16", DType::kBF16}, {"q8_0", DType::kQ8_0}, {"q4_0", DType::kQ4_0}, {"f32", DType::kF32}};
  const auto it = types.find(name);
  if (it == types.end()) {
    Throw(ErrorKind::kUsage, "--weights: expected bf16, q8_0, q4_0 or f32, found '{}'", name);
  }
  return it->second;
}

}  // namespace

std::vector<std::string> Model::ModelShapes() {
  std::vector<std::string> names;
  for (const Shape& shape : kShapes) names.push_back(shape.name);
  return names;
}

std::shared_ptr<Model> Model::Random(const std::string& name, const std::string& weight_type,
                                     const LoadOptions& options) {
  if (!options.adapter.empty() || !options.adapters.empty()) {
    Throw(ErrorKind::kUsage, "--adapter: random weights take no adapter");
  }
  for (const Shape& shape : kShapes) {
    if (name != shape.name) continue;
    auto parts = std::make_unique<Parts>();
    parts->kernels = MakeKernels(options.device, KernelOptionsOf(options));
    parts->config = ConfigOf(shape);
    parts->path = "random weights, " + name;
    const DType type = ParseWeightType(weight_type);
    if (type == DType::kBF16) {
      parts->weights = WeightMaker(parts->config, *parts->kernels).Make(options.progress);
    } else {
      RandomTensors tensors(type);
      AddTensors(parts->config, tensors);
      parts->weights = LoadWeights(parts->config, tensors.store(), TensorNaming::kHuggingFace,
                                   *parts->kernels, options.progress);
    }
    parts->SetIdentity(fmt::format(
        R"({{"weights":"{}, {}","device":"{}","precision":"{}","kv type":"{}","fast":{}}})",
        parts->path, weight_type, options.device, options.precision,
        KvTypeName(parts->kernels->options().kv_type), options.fast));
    return std::shared_ptr<Model>(new Model(std::move(parts)));
  }
  Throw(ErrorKind::kUsage, "--shape: expected one of {}; found '{}'",
        fmt::join(ModelShapes(), ", "), name);
}

}  // namespace banyan
