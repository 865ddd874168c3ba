// Models with random weights at real shapes: for benchmarks and for tests of sizes that no fixture
// has. bf16 weights are made by the backend, where they will stay; other types are made as a file
// would hold them and go through the ordinary loader.
#include <cmath>
#include <map>

#include "base/error.h"
#include "load/kernel_options.h"
#include "load/model_parts.h"
#include "load/model_shapes.h"
#include "load/random_tensors.h"

namespace banyan {
namespace {

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
    layer.experts = kernels_.GatherExperts(std::move(all));
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

std::shared_ptr<Model> Model::Random(const std::string& name, const std::string& weight_type,
                                     const LoadOptions& options) {
  if (!options.adapter.empty() || !options.adapters.empty()) {
    Throw(ErrorKind::kUsage, "--adapter: random weights take no adapter");
  }
  auto parts = std::make_unique<Parts>();
  parts->config = ConfigOfShape(name);
  parts->kernels = MakeKernels(options.device, KernelOptionsOf(options));
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
      parts->path, weight_type, options.device, options.precision,
      KvTypeName(parts->kernels->options().kv_type), options.fast));
  return std::shared_ptr<Model>(new Model(std::move(parts)));
}

}  // namespace banyan
