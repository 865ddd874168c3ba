#include "model/encoder_weights.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "tensor/quantization.h"

namespace banyan {
namespace {

// EncoderNames of tensors without prefix and suffix.
struct EncoderNames {
  const char* layer;  // one {} for its number
  const char *tokens, *positions, *types, *embedding_norm;
  const char *query, *key, *value, *output, *attention_norm;
  const char *up, *down, *ffn_norm;
  const char *classifier_inner, *classifier;
};

constexpr EncoderNames kHuggingFaceEncoderNames = {"encoder.layer.{}.",
                                                   "embeddings.word_embeddings",
                                                   "embeddings.position_embeddings",
                                                   "embeddings.token_type_embeddings",
                                                   "embeddings.LayerNorm",
                                                   "attention.self.query",
                                                   "attention.self.key",
                                                   "attention.self.value",
                                                   "attention.output.dense",
                                                   "attention.output.LayerNorm",
                                                   "intermediate.dense",
                                                   "output.dense",
                                                   "output.LayerNorm",
                                                   "classifier.dense",
                                                   "classifier.out_proj"};

constexpr EncoderNames kGgufEncoderNames = {"blk.{}.",
                                            "token_embd",
                                            "position_embd",
                                            "token_types",
                                            "token_embd_norm",
                                            "attn_q",
                                            "attn_k",
                                            "attn_v",
                                            "attn_output",
                                            "attn_output_norm",
                                            "ffn_up",
                                            "ffn_down",
                                            "layer_output_norm",
                                            "cls",
                                            "cls.output"};

class EncoderLoader {
 public:
  EncoderLoader(const EncoderConfig& config, const TensorStore& store, TensorNaming naming,
                Kernels& kernels, const LoadProgress& progress)
      : config_(config),
        store_(store),
        names_(naming == TensorNaming::kGguf ? kGgufEncoderNames : kHuggingFaceEncoderNames),
        kernels_(kernels),
        progress_(progress),
        total_bytes_(static_cast<std::int64_t>(store.TotalBytes())) {
    if (naming == TensorNaming::kGguf) return;
    // The network alone, or inside a model with a head.
    for (const char* prefix : {"bert.", "roberta."}) {
      if (store.Has(std::string(prefix) + names_.tokens + ".weight")) prefix_ = prefix;
    }
  }

  EncoderWeights Load() {
    weights_.tokens =
        MatrixOf({&Get(prefix_ + names_.tokens + ".weight", {config_.vocab_size, hidden()})});
    weights_.positions = LoadPositions();
    weights_.embedding_norm = Norm(prefix_ + names_.embedding_norm);
    for (int layer = 0; layer < config_.layers; ++layer) {
      weights_.layers.push_back(
          LoadLayer(prefix_ + fmt::format(fmt::runtime(names_.layer), layer)));
    }
    if (config_.reranks) {
      weights_.classifier_inner = Linear({names_.classifier_inner}, hidden(), hidden());
      weights_.classifier = Linear({names_.classifier}, 1, hidden());
    } else {
      LoadHeads();
    }
    if (progress_) progress_(total_bytes_, total_bytes_);
    return std::move(weights_);
  }

 private:
  std::int64_t hidden() const { return config_.hidden_size; }

  EncoderLayerWeights LoadLayer(const std::string& prefix) {
    EncoderLayerWeights layer;
    layer.qkv = LayerLinear({prefix + names_.query, prefix + names_.key, prefix + names_.value},
                            hidden(), hidden());
    layer.output = LayerLinear({prefix + names_.output}, hidden(), hidden());
    layer.attention_norm = Norm(prefix + names_.attention_norm);
    layer.up = LayerLinear({prefix + names_.up}, config_.ffn_size, hidden());
    layer.down = LayerLinear({prefix + names_.down}, hidden(), config_.ffn_size);
    layer.ffn_norm = Norm(prefix + names_.ffn_norm);
    return layer;
  }

  // The heads of BGE-M3, which its files have beside the network.
  void LoadHeads() {
    if (store_.Has("sparse_linear.weight"))
      weights_.sparse = Linear({"sparse_linear"}, 1, hidden());
    if (store_.Has("colbert_linear.weight")) {
      const std::int64_t size = store_.GetAnyShape("colbert_linear.weight").rows();
      weights_.colbert = Linear({"colbert_linear"}, size, hidden());
    }
  }

  // Every text is of token type 0: its vector is added here, once for all.
  MatrixRef LoadPositions() {
    std::vector<float> table =
        Floats(Get(prefix_ + names_.positions + ".weight", {config_.position_rows, hidden()}));
    const std::string types_name = prefix_ + names_.types + ".weight";
    const HostTensor& types = store_.GetAnyShape(types_name);
    if (types.columns() != hidden() || types.rows() < 1) {
      Throw(ErrorKind::kFormat, "tensor '{}': expected rows of {} values, found shape {}",
            types_name, hidden(), ShapeText(types.shape));
    }
    const std::vector<float> type = Floats(types);
    for (size_t i = 0; i < table.size(); ++i) table[i] += type[i % static_cast<size_t>(hidden())];
    const HostTensor sum{names_.positions,
                         DType::kF32,
                         {config_.position_rows, hidden()},
                         std::as_bytes(std::span(table))};
    return MatrixOf({&sum});
  }

  // The named layers' outputs one after the other.
  LinearWeights Linear(const std::vector<std::string>& names, std::int64_t outputs,
                       std::int64_t inputs) {
    return {MatrixOf(Parts(names, outputs, inputs)), Bias(names, outputs)};
  }

  // The same in 8 bits where products of those are the fast ones.
  LinearWeights LayerLinear(const std::vector<std::string>& names, std::int64_t outputs,
                            std::int64_t inputs) {
    const std::vector<const HostTensor*> parts = Parts(names, outputs, inputs);
    const bool mixed = kernels_.options().precision == Precision::kMixed;
    MatrixRef quantized = mixed && !kernels_.asynchronous() ? QuantizedMatrixOf(parts) : nullptr;
    return {quantized ? quantized : MatrixOf(parts), Bias(names, outputs)};
  }

  std::vector<const HostTensor*> Parts(const std::vector<std::string>& names, std::int64_t outputs,
                                       std::int64_t inputs) const {
    std::vector<const HostTensor*> parts;
    for (const std::string& name : names) {
      parts.push_back(&Get(name + ".weight", {outputs, inputs}));
    }
    return parts;
  }

  VectorRef Bias(const std::vector<std::string>& names, std::int64_t outputs) {
    std::vector<float> bias;
    for (const std::string& name : names) {
      const std::vector<float> values = Floats(Get(name + ".bias", {outputs}));
      bias.insert(bias.end(), values.begin(), values.end());
    }
    return kernels_.LoadVector(bias);
  }

  // Null: they are in few bits already, or do not fit blocks.
  MatrixRef QuantizedMatrixOf(const std::vector<const HostTensor*>& parts) {
    std::vector<std::vector<std::byte>> memory;
    std::vector<HostTensor> quantized;
    for (const HostTensor* part : parts) {
      const int block = TraitsOf(DType::kQ8_0).block;
      if (TraitsOf(part->dtype).block > 1 || part->columns() % block != 0) return nullptr;
      memory.emplace_back(static_cast<size_t>(part->rows()) *
                          RowBytes(DType::kQ8_0, part->columns()));
      if (!QuantizeQ8_0(Floats(*part), memory.back())) return nullptr;
      quantized.push_back({part->name, DType::kQ8_0, part->shape, memory.back()});
    }
    std::vector<const HostTensor*> places;
    for (const HostTensor& tensor : quantized) places.push_back(&tensor);
    return MatrixOf(places);
  }

  NormWeights Norm(const std::string& name) {
    return {kernels_.LoadVector(Floats(Get(name + ".weight", {hidden()}))),
            kernels_.LoadVector(Floats(Get(name + ".bias", {hidden()})))};
  }

  // Files that drop dimensions of 1 write a matrix of one row as a vector.
  const HostTensor& Get(const std::string& name, const std::vector<std::int64_t>& shape) const {
    const bool one_row = shape.size() == 2 && shape[0] == 1;
    if (one_row && store_.Has(name) && store_.GetAnyShape(name).shape.size() == 1) {
      return store_.Get(name, std::span(shape).last(1));
    }
    return store_.Get(name, shape);
  }

  static std::vector<float> Floats(const HostTensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.rows() * tensor.columns()));
    Dequantize(tensor.dtype, tensor.bytes, values);
    return values;
  }

  MatrixRef MatrixOf(const std::vector<const HostTensor*>& parts) {
    MatrixRef matrix = kernels_.LoadMatrix(parts, {});
    for (const HostTensor* part : parts) {
      loaded_bytes_ += static_cast<std::int64_t>(part->bytes.size());
    }
    if (progress_) progress_(std::min(loaded_bytes_, total_bytes_), total_bytes_);
    weights_.bytes += matrix->bytes;
    return matrix;
  }

  const EncoderConfig& config_;
  const TensorStore& store_;
  const EncoderNames& names_;
  Kernels& kernels_;
  const LoadProgress& progress_;
  std::string prefix_;
  std::int64_t loaded_bytes_ = 0, total_bytes_ = 0;
  EncoderWeights weights_;
};

}  // namespace

EncoderWeights LoadEncoderWeights(const EncoderConfig& config, const TensorStore& store,
                                  TensorNaming naming, Kernels& kernels,
                                  const LoadProgress& progress) {
  return EncoderLoader(config, store, naming, kernels, progress).Load();
}

}  // namespace banyan
