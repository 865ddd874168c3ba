#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/thread_pool.h"
#include "model/merged_matrix.h"
#include "model/tensor_names.h"
#include "tensor/dequantize.h"

namespace banyan {
namespace {

// Adapters' names of the modules that stand outside the layers.
constexpr const char* kEmbeddingModule = "model.embed_tokens";
constexpr const char* kLogitsModule = "lm_head";

class DecoderLoader {
 public:
  DecoderLoader(const ModelConfig& config, const TensorStore& store, TensorNaming naming,
                Kernels& kernels, const LoadProgress& progress, const AdaptersToLoad& adapters)
      : config_(config),
        store_(store),
        names_(naming == TensorNaming::kGguf ? kGgufNames : kHuggingFaceNames),
        kernels_(kernels),
        progress_(progress),
        total_bytes_(static_cast<std::int64_t>(store.TotalBytes())),
        adapter_(adapters.merged),
        apart_(adapters.apart) {
    if (adapter_ != nullptr) pool_.emplace(kernels.options().threads);
  }

  ModelWeights Load() {
    const HostTensor& embedding = store_.Get(names_.embedding, {config_.vocab_size, hidden()});
    weights_.embedding = MatrixOf({&embedding}, {}, {{kEmbeddingModule, 0, config_.vocab_size}});
    weights_.final_norm = VectorOf({&store_.Get(names_.final_norm, {hidden()})});
    for (int layer = 0; layer < config_.layers; ++layer) {
      prefix_ = fmt::format(fmt::runtime(names_.layer_prefix), layer);
      module_prefix_ = fmt::format(fmt::runtime(kHuggingFaceNames.layer_prefix), layer);
      weights_.layers.push_back(LoadLayer());
    }
    weights_.logits = Logits(embedding);
    weights_.logits_more = Apart({{kLogitsModule, 0, config_.vocab_size}}, hidden());
    if (adapter_ != nullptr) adapter_->CheckAllFound();
    for (Adapter* adapter : apart_) {
      if (adapter->Find(kEmbeddingModule, config_.vocab_size, hidden()) != nullptr) {
        Throw(ErrorKind::kUnsupported,
              "{}: it adapts '{}', which works only where an adapter is merged into the weights",
              adapter->where(), kEmbeddingModule);
      }
      adapter->CheckAllFound();
    }
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
  MatrixRef Logits(const HostTensor& embedding) {
    const std::vector<Place> place = {{kLogitsModule, 0, config_.vocab_size}};
    if (config_.tied_embeddings) {
      const bool same = ProductsFor(place, hidden()).empty() &&
                        ProductsFor({{kEmbeddingModule, 0, config_.vocab_size}}, hidden()).empty();
      return same ? weights_.embedding : MatrixOf({&embedding}, {}, place);
    }
    try {
      return MatrixOf({&store_.Get(names_.logits, {config_.vocab_size, hidden()})}, {}, place);
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
    const std::vector<Place> output = {{InLayer(kHuggingFaceNames.output), 0, hidden()}};
    layer.output = MatrixOf({&Get(names_.output, "weight", {hidden(), query_size()})}, {}, output);
    layer.output_more = Apart(output, query_size());
    if (config_.output_bias)
      layer.output_bias = VectorOf({&Get(names_.output, "bias", {hidden()})});
    LoadFfn(layer);
    return layer;
  }

  void LoadQkv(LayerWeights& layer) {
    const std::int64_t total = query_size() + 2 * key_size();
    const std::vector<std::int32_t> order = QkvRowOrder();
    const std::vector<Place> places = {
        {InLayer(kHuggingFaceNames.query), 0, query_size()},
        {InLayer(kHuggingFaceNames.key), query_size(), key_size()},
        {InLayer(kHuggingFaceNames.value), query_size() + key_size(), key_size()},
        {InLayer(kHuggingFaceNames.fused_qkv), 0, total}};
    layer.qkv_more = Apart(places, hidden());
    if (Has(names_.fused_qkv)) {
      layer.qkv = MatrixOf({&Get(names_.fused_qkv, "weight", {total, hidden()})}, order, places);
      if (config_.qkv_bias)
        layer.qkv_bias = VectorOf({&Get(names_.fused_qkv, "bias", {total})}, order);
      return;
    }
    layer.qkv = MatrixOf({&Get(names_.query, "weight", {query_size(), hidden()}),
                          &Get(names_.key, "weight", {key_size(), hidden()}),
                          &Get(names_.value, "weight", {key_size(), hidden()})},
                         order, places);
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
    const std::vector<Place> gate_up = {{InLayer(kHuggingFaceNames.gate), 0, ffn},
                                        {InLayer(kHuggingFaceNames.up), ffn, ffn},
                                        {InLayer(kHuggingFaceNames.fused_gate_up), 0, 2 * ffn}};
    const std::vector<Place> down = {{InLayer(kHuggingFaceNames.down), 0, hidden()}};
    layer.gate_up = MatrixOf(parts("weight", true), {}, gate_up);
    layer.gate_up_more = Apart(gate_up, hidden());
    layer.down = MatrixOf({&Get(names_.down, "weight", {hidden(), ffn})}, {}, down);
    layer.down_more = Apart(down, ffn);
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

  // What adapters call a stretch of rows of a stacked matrix, whatever the file's names are.
  struct Place {
    std::string module;
    std::int64_t first_row, rows;
  };

  std::string InLayer(const char* name) const { return module_prefix_ + name; }

  static std::vector<AdaptedRows> ProductsOf(Adapter* adapter, const std::vector<Place>& places,
                                             std::int64_t columns) {
    std::vector<AdaptedRows> products;
    if (adapter == nullptr) return products;
    for (const Place& place : places) {
      const LowRankProduct* product = adapter->Find(place.module, place.rows, columns);
      if (product != nullptr) products.push_back({product, place.first_row, place.rows});
    }
    return products;
  }
  std::vector<AdaptedRows> ProductsFor(const std::vector<Place>& places, std::int64_t columns) {
    return ProductsOf(adapter_, places, columns);
  }

  // Null when no adapter that is kept apart has a product for one of the places.
  LowRankRef Apart(const std::vector<Place>& places, std::int64_t columns) {
    std::vector<std::vector<LowRankPart>> variants;
    bool some = false;
    for (Adapter* adapter : apart_) {
      std::vector<LowRankPart>& parts = variants.emplace_back();
      for (const AdaptedRows& rows : ProductsOf(adapter, places, columns)) {
        CheckFinite(*rows.product, *adapter);
        parts.push_back({rows.product->a, rows.product->b, rows.product->scale, rows.first_row});
        some = true;
      }
    }
    if (!some) return nullptr;
    std::int64_t rows = 0;
    for (const Place& place : places) rows = std::max(rows, place.first_row + place.rows);
    LowRankRef table = kernels_.LoadLowRank({rows, columns, variants});
    weights_.ranks = std::max(weights_.ranks, table->ranks);
    weights_.bytes += table->bytes;
    return table;
  }

  static void CheckFinite(const LowRankProduct& product, const Adapter& adapter) {
    for (const HostTensor* tensor : {product.a, product.b}) {
      std::vector<float> values(static_cast<size_t>(tensor->rows() * tensor->columns()));
      Dequantize(tensor->dtype, tensor->bytes, values);
      if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) continue;
      Throw(ErrorKind::kFormat, "{}: tensor '{}' has values that are not finite", adapter.where(),
            tensor->name);
    }
  }

  // `places` name the rows in the order that `order` makes.
  MatrixRef MatrixOf(const std::vector<const HostTensor*>& parts,
                     std::span<const std::int32_t> order, const std::vector<Place>& places) {
    for (const HostTensor* part : parts) ReadAhead(part->bytes);
    MatrixRef matrix;
    const auto products = ProductsFor(places, parts.front()->columns());
    if (products.empty()) {
      matrix = kernels_.LoadMatrix(parts, order);
    } else {
      const MergedMatrix merged =
          Merge(parts, order, products, kernels_.options().precision, adapter_->where(), *pool_);
      const HostTensor* whole = &merged.tensor;
      matrix = kernels_.LoadMatrix(std::span(&whole, 1), {});
    }
    for (const HostTensor* part : parts) {
      loaded_bytes_ += static_cast<std::int64_t>(part->bytes.size());
      store_.Forget(*part);  // or the file and the weights made of it would be in memory at once
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
  const TensorNames& names_;
  Kernels& kernels_;
  const LoadProgress& progress_;
  std::int64_t loaded_bytes_ = 0, total_bytes_ = 0;
  Adapter* adapter_;  // merged; may be null
  const std::vector<Adapter*>& apart_;
  std::optional<ThreadPool> pool_;      // for merging
  std::string prefix_, module_prefix_;  // of the layer being loaded: the file's, and adapters'
  ModelWeights weights_;
};

}  // namespace

ModelWeights LoadWeights(const ModelConfig& config, const TensorStore& store, TensorNaming naming,
                         Kernels& kernels, const LoadProgress& progress,
                         const AdaptersToLoad& adapters) {
  return DecoderLoader(config, store, naming, kernels, progress, adapters).Load();
}

}  // namespace banyan
