#include "model/weights.h"

#include <fmt/format.h>

#include <initializer_list>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tensor/dequantize.h"

namespace banyan {
namespace {

// Names of a layer's tensors without prefix and suffix. Families that fuse tensors in the file use
// the fused name; the loader takes whichever is there.
struct Names {
  const char* layer_prefix;  // one {} for the layer
  const char* embedding;
  const char* final_norm;
  const char* logits;
  const char* norm_before_attention;
  const char* norm_before_ffn;
  const char* norm_after_attention;
  const char* norm_after_ffn;
  const char *query, *key, *value, *fused_qkv, *output;
  const char *query_norm, *key_norm;
  const char *gate, *up, *fused_gate_up, *down;
};

constexpr Names kHuggingFaceNames = {"model.layers.{}.",
                                     "model.embed_tokens.weight",
                                     "model.norm.weight",
                                     "lm_head.weight",
                                     "input_layernorm",
                                     "post_attention_layernorm",
                                     "post_attention_layernorm",
                                     "post_feedforward_layernorm",
                                     "self_attn.q_proj",
                                     "self_attn.k_proj",
                                     "self_attn.v_proj",
                                     "self_attn.qkv_proj",
                                     "self_attn.o_proj",
                                     "self_attn.q_norm",
                                     "self_attn.k_norm",
                                     "mlp.gate_proj",
                                     "mlp.up_proj",
                                     "mlp.gate_up_proj",
                                     "mlp.down_proj"};

// GGUF's Phi-3 stores gate and up fused under the name of up alone.
constexpr Names kGgufNames = {"blk.{}.",
                              "token_embd.weight",
                              "output_norm.weight",
                              "output.weight",
                              "attn_norm",
                              "ffn_norm",
                              "post_attention_norm",
                              "post_ffw_norm",
                              "attn_q",
                              "attn_k",
                              "attn_v",
                              "attn_qkv",
                              "attn_output",
                              "attn_q_norm",
                              "attn_k_norm",
                              "ffn_gate",
                              "ffn_up",
                              "ffn_up",
                              "ffn_down"};

class Loader {
 public:
  Loader(const ModelConfig& config, const TensorStore& store, TensorNaming naming, Kernels& kernels,
         const LoadProgress& progress)
      : config_(config),
        store_(store),
        names_(naming == TensorNaming::kGguf ? kGgufNames : kHuggingFaceNames),
        kernels_(kernels),
        progress_(progress),
        total_bytes_(static_cast<std::int64_t>(store.TotalBytes())) {}

  ModelWeights Load() {
    weights_.embedding = MatrixOf({&store_.Get(names_.embedding, {config_.vocab_size, hidden()})});
    weights_.final_norm = VectorOf({&store_.Get(names_.final_norm, {hidden()})});
    for (int layer = 0; layer < config_.layers; ++layer) {
      prefix_ = fmt::format(fmt::runtime(names_.layer_prefix), layer);
      weights_.layers.push_back(LoadLayer());
    }
    weights_.logits = Logits();
    if (progress_)
      progress_(total_bytes_, total_bytes_);  // what the model does not use is done too
    return std::move(weights_);
  }

 private:
  std::int64_t hidden() const { return config_.hidden_size; }
  std::int64_t query_size() const {
    return static_cast<std::int64_t>(config_.heads) * config_.head_dim;
  }
  std::int64_t key_size() const {
    return static_cast<std::int64_t>(config_.kv_heads) * config_.head_dim;
  }

  // Logits that are missing are the embedding's only where the configuration says so. (That of a
  // GGUF file does exactly when the tensor is not there.)
  MatrixRef Logits() {
    if (config_.tied_embeddings) return weights_.embedding;
    try {
      return MatrixOf({&store_.Get(names_.logits, {config_.vocab_size, hidden()})});
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kNotFound) throw;
      Throw(ErrorKind::kNotFound,
            "{}; tie_word_embeddings is false or not set, so the logits need weights of their own",
            e.what());
    }
  }

  LayerWeights LoadLayer() {
    LayerWeights layer;
    const bool before = config_.norm_placement == NormPlacement::kBefore;
    layer.attention_norm =
        Norm(before ? names_.norm_before_attention : names_.norm_after_attention);
    layer.ffn_norm = Norm(before ? names_.norm_before_ffn : names_.norm_after_ffn);
    LoadQkv(layer);
    if (config_.qk_norm != QkNorm::kNone) {
      const bool whole = config_.qk_norm == QkNorm::kWhole;
      layer.query_norm =
          VectorOf({&Get(names_.query_norm, "weight", {whole ? query_size() : config_.head_dim})});
      layer.key_norm =
          VectorOf({&Get(names_.key_norm, "weight", {whole ? key_size() : config_.head_dim})});
    }
    layer.output = MatrixOf({&Get(names_.output, "weight", {hidden(), query_size()})});
    if (config_.output_bias)
      layer.output_bias = VectorOf({&Get(names_.output, "bias", {hidden()})});
    LoadFfn(layer);
    return layer;
  }

  void LoadQkv(LayerWeights& layer) {
    const std::int64_t total = query_size() + 2 * key_size();
    const std::vector<std::int32_t> order = QkvRowOrder();
    if (Has(names_.fused_qkv)) {
      layer.qkv = MatrixOf({&Get(names_.fused_qkv, "weight", {total, hidden()})}, order);
      if (config_.qkv_bias)
        layer.qkv_bias = VectorOf({&Get(names_.fused_qkv, "bias", {total})}, order);
      return;
    }
    layer.qkv = MatrixOf({&Get(names_.query, "weight", {query_size(), hidden()}),
                          &Get(names_.key, "weight", {key_size(), hidden()}),
                          &Get(names_.value, "weight", {key_size(), hidden()})},
                         order);
    if (config_.qkv_bias) {
      layer.qkv_bias = VectorOf(
          {&Get(names_.query, "bias", {query_size()}), &Get(names_.key, "bias", {key_size()}),
           &Get(names_.value, "bias", {key_size()})},
          order);
    }
  }

  void LoadFfn(LayerWeights& layer) {
    const std::int64_t ffn = config_.ffn_size;
    const bool fused = Has(names_.fused_gate_up) && !Has(names_.gate);
    const auto parts = [&](const char* suffix, bool matrix) {
      const auto shape = [&](std::int64_t rows) {
        return matrix ? std::vector<std::int64_t>{rows, hidden()} : std::vector<std::int64_t>{rows};
      };
      if (fused) {
        return std::vector<const HostTensor*>{&Get(names_.fused_gate_up, suffix, shape(2 * ffn))};
      }
      return std::vector<const HostTensor*>{&Get(names_.gate, suffix, shape(ffn)),
                                            &Get(names_.up, suffix, shape(ffn))};
    };
    layer.gate_up = MatrixOf(parts("weight", true));
    layer.down = MatrixOf({&Get(names_.down, "weight", {hidden(), ffn})});
    if (config_.mlp_bias) {
      layer.gate_up_bias = VectorOf(parts("bias", false));
      layer.down_bias = VectorOf({&Get(names_.down, "bias", {hidden()})});
    }
  }

  // Files that store Q and K for rotation of neighbouring pairs have row 2 i + s of a head where we
  // want row s * half + i.
  std::vector<std::int32_t> QkvRowOrder() const {
    if (!config_.interleaved_qk_rows) return {};
    std::vector<std::int32_t> order(static_cast<size_t>(query_size() + 2 * key_size()));
    const int half = config_.head_dim / 2;
    for (size_t row = 0; row < order.size(); ++row) {
      const int within = static_cast<int>(row) % config_.head_dim;
      const int head_start = static_cast<int>(row) - within;
      const bool is_value = static_cast<std::int64_t>(row) >= query_size() + key_size();
      order[row] =
          is_value ? static_cast<int>(row) : head_start + 2 * (within % half) + within / half;
    }
    return order;
  }

  VectorRef Norm(const char* name) { return VectorOf({&Get(name, "weight", {hidden()})}); }

  bool Has(const char* name) const { return store_.Has(prefix_ + name + ".weight"); }

  const HostTensor& Get(const char* name, const char* suffix,
                        const std::vector<std::int64_t>& shape) const {
    return store_.Get(prefix_ + name + "." + suffix, shape);
  }

  MatrixRef MatrixOf(const std::vector<const HostTensor*>& parts,
                     std::span<const std::int32_t> order = {}) {
    for (const HostTensor* part : parts) ReadAhead(part->bytes);
    MatrixRef matrix = kernels_.LoadMatrix(parts, order);
    for (const HostTensor* part : parts) {
      loaded_bytes_ += static_cast<std::int64_t>(part->bytes.size());
    }
    if (progress_) progress_(loaded_bytes_, total_bytes_);
    weights_.bytes += matrix->bytes;
    weights_.parameters += matrix->rows * matrix->columns;
    return matrix;
  }

  VectorRef VectorOf(const std::vector<const HostTensor*>& parts,
                     const std::vector<std::int32_t>& order = {}) {
    std::vector<float> values;
    for (const HostTensor* part : parts) {
      const size_t begin = values.size();
      values.resize(begin + static_cast<size_t>(part->columns()));
      Dequantize(part->dtype, part->bytes, std::span(values).subspan(begin));
    }
    if (order.empty()) return kernels_.LoadVector(values);
    std::vector<float> ordered;
    for (std::int32_t source : order) ordered.push_back(values[static_cast<size_t>(source)]);
    return kernels_.LoadVector(ordered);
  }

  const ModelConfig& config_;
  const TensorStore& store_;
  const Names& names_;
  Kernels& kernels_;
  const LoadProgress& progress_;
  std::int64_t loaded_bytes_ = 0, total_bytes_ = 0;
  std::string prefix_;  // of the layer being loaded
  ModelWeights weights_;
};

}  // namespace

ModelWeights LoadWeights(const ModelConfig& config, const TensorStore& store, TensorNaming naming,
                         Kernels& kernels, const LoadProgress& progress) {
  return Loader(config, store, naming, kernels, progress).Load();
}

}  // namespace banyan
