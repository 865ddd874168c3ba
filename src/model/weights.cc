#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "model/expert_tensors.h"
#include "model/layer_state.h"
#include "model/matrix_loader.h"
#include "tensor/quantization.h"

namespace banyan {
namespace {

const TensorNames& NamesOf(const ModelConfig& config, TensorNaming naming) {
  const bool lfm2 = config.family.starts_with("lfm2");
  if (naming == TensorNaming::kGguf) return lfm2 ? kGgufLfm2Names : kGgufNames;
  return lfm2 ? kLfm2Names : kHuggingFaceNames;
}

// Ollama names that of LFM2 as those of other families.
const char* FinalNormOf(const TensorNames& names, const TensorStore& store) {
  const char* usual = kGgufNames.final_norm;
  return !store.Has(names.final_norm) && store.Has(usual) ? usual : names.final_norm;
}

// The name without its ending ".weight": what adapters call a module.
std::string ModuleOf(const std::string& tensor) {
  return tensor.substr(0, tensor.size() - std::string_view(".weight").size());
}

class DecoderLoader {
 public:
  DecoderLoader(const ModelConfig& config, const TensorStore& store, TensorNaming naming,
                Kernels& kernels, const LoadProgress& progress, const AdaptersToLoad& adapters)
      : config_(config),
        store_(store),
        gguf_(naming == TensorNaming::kGguf),
        names_(NamesOf(config, naming)),
        modules_(NamesOf(config, TensorNaming::kHuggingFace)),
        kernels_(kernels),
        load_(store, kernels, progress, adapters, config.scales, weights_) {
    if (naming == TensorNaming::kHuggingFace) FindRoot();
    embedding_module_ = ModuleOf(InRoot(kHuggingFaceNames.embedding));
    logits_module_ =
        ModuleOf(naming == TensorNaming::kHuggingFace ? logits_name_ : kHuggingFaceNames.logits);
  }

  ModelWeights Load() {
    const HostTensor& embedding =
        store_.Get(InRoot(names_.embedding), {config_.vocab_size, hidden()});
    weights_.embedding = load_.Table(embedding, {{embedding_module_, 0, config_.vocab_size}});
    if (config_.layer_input_size > 0) LoadInputs();
    weights_.final_norm =
        NormOf(store_.Get(InRoot(FinalNormOf(names_, store_)), {hidden()}), config_.logit_scale);
    for (int layer = 0; layer < config_.layers; ++layer) {
      layer_ = layer;
      prefix_ = fmt::format(fmt::runtime(InRoot(names_.layer_prefix)), layer);
      module_prefix_ = fmt::format(fmt::runtime(InRoot(kHuggingFaceNames.layer_prefix)), layer);
      weights_.layers.push_back(LoadLayer());
    }
    weights_.logits = Logits(embedding);
    weights_.logits_more = load_.Apart({{logits_module_, 0, config_.vocab_size}}, hidden());
    load_.RefuseApart({{embedding_module_, 0, config_.vocab_size}}, hidden());
    load_.Finish();
    return std::move(weights_);
  }

 private:
  using Place = AdaptedPlace;

  std::int64_t hidden() const { return config_.hidden_size; }
  // Of the layer being loaded.
  int head_dim() const { return config_.KeysOf(layer_).dim; }
  std::int64_t query_size() const { return static_cast<std::int64_t>(config_.heads) * head_dim(); }
  std::int64_t key_size() const {
    return static_cast<std::int64_t>(config_.KeysOf(layer_).heads) * head_dim();
  }

  void FindRoot() {
    if (store_.Has(kHuggingFaceNames.embedding)) return;
    for (const OtherRoot& other : kOtherRoots) {
      if (!store_.Has(fmt::format("{}embed_tokens.weight", other.root))) continue;
      root_ = other.root;
      logits_name_ = other.logits;
    }
  }

  // A name of ours as the file has it.
  std::string InRoot(std::string name) const {
    const std::string_view usual = kHuggingFaceRoot;
    return name.starts_with(usual) ? root_ + name.substr(usual.size()) : name;
  }

  // Logits that are missing are the embedding's only where the configuration says so. (That of a
  // GGUF file does exactly when the tensor is not there.)
  MatrixRef Logits(const HostTensor& embedding) {
    const std::vector<Place> place = {{logits_module_, 0, config_.vocab_size}};
    if (config_.tied_embeddings) {
      const bool same = !load_.IsMergedInto(place, hidden()) &&
                        !load_.IsMergedInto({{embedding_module_, 0, config_.vocab_size}}, hidden());
      return same ? weights_.embedding : load_.DividedMatrix({&embedding}, {}, place);
    }
    try {
      return load_.DividedMatrix({&store_.Get(logits_name_, {config_.vocab_size, hidden()})}, {},
                                 place);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kNotFound) throw;
      Throw(ErrorKind::kNotFound,
            "{}; tie_word_embeddings is false or not set, so the logits need weights of their own",
            e.what());
    }
  }

  LayerWeights LoadLayer() {
    LayerWeights layer;
    const NormPlacement placement = config_.norm_placement;
    if (placement != NormPlacement::kAfter) {
      layer.attention_norm = Norm(names_.norm_before_attention);
      layer.ffn_norm = Norm(NameOfFfnNorm());
    }
    if (placement != NormPlacement::kBefore) {
      layer.attended_norm = Norm(names_.norm_after_attention);
      layer.fed_norm = Norm(names_.norm_after_ffn);
    }
    if (config_.HasState(layer_)) {
      const LayerState state(config_, store_, prefix_, module_prefix_, load_,
                             gguf_ ? TensorNaming::kGguf : TensorNaming::kHuggingFace);
      layer.state = state.Load(kernels_);
      state.LoadOutput(layer);
    } else {
      LoadAttention(layer);
    }
    if (config_.HasExperts(layer_)) LoadExperts(layer);
    if (config_.HasBlock(layer_)) LoadFfn(layer);
    if (config_.experts.beside == BlockBeside::kNormed) LoadNormsBesideBlock(layer);
    if (config_.layer_input_size > 0) LoadInput(layer);
    // A GGUF file leaves out what is 1.
    if (config_.layer_scales && (!gguf_ || store_.Has(prefix_ + names_.layer_scale))) {
      layer.scale = FiniteValues(store_.Get(prefix_ + names_.layer_scale, {1})).front();
    }
    return layer;
  }

  void LoadAttention(LayerWeights& layer) {
    LoadQkv(layer);
    if (config_.output_gate) LoadOutputGate(layer);
    if (config_.qk_norm != QkNorm::kNone) {
      const bool whole = config_.qk_norm == QkNorm::kWhole;
      layer.query_norm =
          NormOf(Get(names_.query_norm, "weight", {whole ? query_size() : head_dim()}));
      if (config_.HasKeys(layer_)) {
        layer.key_norm = NormOf(Get(names_.key_norm, "weight", {whole ? key_size() : head_dim()}));
      }
    }
    if (config_.value_norm && config_.HasKeys(layer_)) {
      const std::vector<float> ones(static_cast<size_t>(head_dim()), 1.0f);
      layer.value_norm = kernels_.LoadVector(ones);
    }
    const std::vector<Place> output = {{InLayer(modules_.output), 0, hidden()}};
    layer.output =
        load_.ProductMatrix({&Get(names_.output, "weight", {hidden(), query_size()})}, {}, output);
    layer.output_more = load_.Apart(output, query_size());
    if (config_.output_bias)
      layer.output_bias = load_.Vector({&Get(names_.output, "bias", {hidden()})});
    if (config_.attention_sinks) {
      const char* name = gguf_ ? "attn_sinks.weight" : "self_attn.sinks";
      layer.sinks = kernels_.LoadVector(FiniteValues(store_.Get(prefix_ + name, {config_.heads})));
    }
  }

  void LoadNormsBesideBlock(LayerWeights& layer) {
    layer.experts_norm = Norm(names_.norm_before_experts);
    layer.block_fed_norm = Norm(names_.norm_after_block);
    layer.experts_fed_norm = Norm(names_.norm_after_experts);
    // The router's norm has a weight for each value, times one over the root of their number.
    const float root = 1.0f / std::sqrt(static_cast<float>(config_.hidden_size));
    layer.router_norm = NormOf(store_.Get(prefix_ + names_.router_scale, {hidden()}), root);
  }

  void LoadInputs() {
    const std::int64_t size = config_.layer_input_size, all = config_.layers * size;
    const auto place = [&](const char* name, std::int64_t rows) {
      return std::vector<Place>{{ModuleOf(InRoot(name)), 0, rows}};
    };
    const HostTensor& embedding =
        store_.Get(InRoot(names_.inputs_embedding), {config_.layer_input_vocab, all});
    weights_.inputs.embedding = load_.Table(
        embedding, place(kHuggingFaceNames.inputs_embedding, config_.layer_input_vocab));
    const std::vector<Place> projection = place(kHuggingFaceNames.inputs_projection, all);
    load_.RefuseApart(projection, hidden());
    weights_.inputs.projection = load_.ProductMatrix(
        {&store_.Get(InRoot(names_.inputs_projection), {all, hidden()})}, {}, projection);
    weights_.inputs.norm = NormOf(store_.Get(InRoot(names_.inputs_norm), {size}));
  }

  void LoadInput(LayerWeights& layer) {
    const std::int64_t size = config_.layer_input_size;
    const auto matrix = [&](const char* name, const char* module, std::int64_t rows,
                            std::int64_t columns) {
      const std::vector<Place> place = {{InLayer(module), 0, rows}};
      load_.RefuseApart(place, columns);
      return load_.ProductMatrix({&Get(name, "weight", {rows, columns})}, {}, place);
    };
    layer.input_gate = matrix(names_.input_gate, kHuggingFaceNames.input_gate, size, hidden());
    layer.input_projection =
        matrix(names_.input_projection, kHuggingFaceNames.input_projection, hidden(), size);
    layer.input_norm = Norm(names_.input_norm);
  }

  // GGUF's gpt-oss has it under the name of a norm after attention.
  const char* NameOfFfnNorm() const {
    if (config_.norm_placement != NormPlacement::kBefore) return names_.second_norm_before_ffn;
    const bool other = !Has(names_.norm_before_ffn) && Has(names_.norm_after_attention);
    return other ? names_.norm_after_attention : names_.norm_before_ffn;
  }

  void LoadExperts(LayerWeights& layer) {
    const ExpertsConfig& experts = config_.experts;
    const LayerExperts tensors(config_, store_, prefix_, gguf_);
    const std::vector<Place> router = {{InLayer("mlp.gate"), 0, experts.count},
                                       {InLayer("mlp.router"), 0, experts.count},
                                       {InLayer("router.proj"), 0, experts.count}};
    load_.RefuseApart(router, hidden());
    layer.router = load_.Matrix({&tensors.router()}, {}, router);
    if (experts.bias) layer.router_bias = load_.Vector({&tensors.router_bias()});
    const std::int64_t bytes_before = weights_.bytes, parameters_before = weights_.parameters;
    std::vector<ExpertWeights> all;
    for (int e = 0; e < experts.count; ++e) {
      const auto place = [&](const char* name, std::int64_t first, std::int64_t rows) {
        return Place{InLayer("mlp.experts.") + fmt::format("{}.{}", e, name), first, rows};
      };
      const std::int64_t inner = experts.inner_size;
      const std::vector<Place> gate_up = {place("gate_proj", 0, inner),
                                          place("up_proj", inner, inner)};
      const std::vector<Place> down = {place("down_proj", 0, hidden())};
      load_.RefuseApart(gate_up, hidden());
      load_.RefuseApart(down, inner);
      ExpertWeights expert;
      const StackedTensors gate_up_parts = tensors.GateUp(e);
      const StackedTensors down_parts = tensors.Down(e);
      const std::int64_t halves[] = {inner, inner};
      expert.gate_up =
          load_.ProductMatrix(gate_up_parts.pointers(), gate_up_parts.order, gate_up, halves);
      expert.down = load_.ProductMatrix(down_parts.pointers(), {}, down);
      if (experts.bias) {
        const StackedTensors bias = tensors.GateUpBias(e);
        expert.gate_up_bias = load_.Vector(bias.pointers(), bias.order);
        const StackedTensors down_bias = tensors.DownBias(e);
        expert.down_bias = load_.Vector(down_bias.pointers());
      }
      all.push_back(std::move(expert));
    }
    ExpertNumbers numbers;
    if (experts.beside == BlockBeside::kNormed) numbers.share_scales = tensors.ShareScales();
    if (experts.choice_biases) numbers.choice_biases = tensors.ChoiceBiases();
    layer.experts = kernels_.GatherExperts(std::move(all), std::move(numbers));
    if (experts.beside == BlockBeside::kGated) {
      const std::vector<Place> gate = {{InLayer("mlp.shared_expert_gate"), 0, 1}};
      load_.RefuseApart(gate, hidden());
      layer.block_gate =
          load_.Matrix({&Get(names_.beside_switch, "weight", {1, hidden()})}, {}, gate);
    }
    const std::int64_t resting = experts.count - experts.rule.chosen;
    weights_.resting_bytes += (weights_.bytes - bytes_before) / experts.count * resting;
    weights_.resting_parameters +=
        (weights_.parameters - parameters_before) / experts.count * resting;
  }

  void LoadQkv(LayerWeights& layer) {
    const bool keys = config_.HasKeys(layer_);
    // Keys that are values come a second time in the values' place.
    const bool same = config_.Attention(layer_).keys_are_values;
    const std::int64_t stored = keys ? key_size() : 0;
    const std::int64_t total = query_size() + 2 * stored;
    const std::vector<std::int32_t> order = QkvRowOrder();
    std::vector<Place> places;
    if (config_.output_gate) {
      places.push_back(TakenRows(InLayer(modules_.query), 2 * query_size(), 0, RowsOfHeads(0)));
    } else {
      places.push_back({InLayer(modules_.query), 0, query_size()});
    }
    if (keys) {
      const char* value = same ? modules_.key : modules_.value;
      places.push_back({InLayer(modules_.key), query_size(), stored});
      places.push_back({InLayer(value), query_size() + stored, stored});
      places.push_back({InLayer(modules_.fused_qkv), 0, total});
    }
    layer.qkv_more = load_.Apart(places, hidden());
    if (keys && Has(names_.fused_qkv)) {
      layer.qkv =
          load_.ProductMatrix({&Get(names_.fused_qkv, "weight", {total, hidden()})}, order, places);
      if (config_.qkv_bias)
        layer.qkv_bias = load_.Vector({&Get(names_.fused_qkv, "bias", {total})}, order);
      return;
    }
    const auto parts = [&](const char* suffix, bool matrix) {
      const auto get = [&](const char* name, std::int64_t rows) {
        return &Get(
            name, suffix,
            matrix ? std::vector<std::int64_t>{rows, hidden()} : std::vector<std::int64_t>{rows});
      };
      const std::int64_t queries = query_size() * (config_.output_gate ? 2 : 1);
      std::vector<const HostTensor*> all = {get(names_.query, queries)};
      if (!keys) return all;
      all.push_back(get(names_.key, stored));
      all.push_back(get(same ? names_.key : names_.value, stored));
      return all;
    };
    layer.qkv = load_.ProductMatrix(parts("weight", true), order, places);
    if (config_.qkv_bias) layer.qkv_bias = load_.Vector(parts("bias", false), order);
  }

  // Where the rows of a head's query are followed by those of its gate: those of queries (0) or
  // gates (1).
  std::vector<std::int32_t> RowsOfHeads(int which) const {
    std::vector<std::int32_t> rows;
    for (int row = 0; row < 2 * query_size(); ++row) {
      if (row / head_dim() % 2 == which) rows.push_back(row);
    }
    return rows;
  }

  void LoadOutputGate(LayerWeights& layer) {
    const std::vector<std::int32_t> gates = RowsOfHeads(1);
    const HostTensor& query = Get(names_.query, "weight", {2 * query_size(), hidden()});
    const std::vector<Place> place = {
        TakenRows(InLayer(modules_.query), 2 * query_size(), 0, gates)};
    layer.output_gate = load_.ProductMatrix({&query}, gates, place);
    layer.output_gate_more = load_.Apart(place, hidden());
    if (!config_.qkv_bias) return;
    layer.output_gate_bias = load_.Vector({&Get(names_.query, "bias", {2 * query_size()})}, gates);
  }

  void LoadFfn(LayerWeights& layer) {
    const std::int64_t ffn = config_.FfnSize(layer_);
    const BlockBeside kind = config_.experts.beside;
    const bool beside = config_.HasExperts(layer_) &&
                        (kind == BlockBeside::kGated || (gguf_ && kind == BlockBeside::kPlain));
    const char* gate_name = beside ? names_.beside_gate : names_.gate;
    const char* up_name = beside ? names_.beside_up : names_.up;
    const bool shared = Has(names_.shared_gate_up) && !Has(names_.fused_gate_up);
    const char* fused_name = shared ? names_.shared_gate_up : names_.fused_gate_up;
    const bool fused = Has(fused_name) && !Has(gate_name);
    const char* down_name = beside ? names_.beside_down : shared ? names_.shared_down : names_.down;
    const auto parts = [&](const char* suffix, bool matrix) {
      const auto shape = [&](std::int64_t rows) {
        return matrix ? std::vector<std::int64_t>{rows, hidden()} : std::vector<std::int64_t>{rows};
      };
      if (fused) {
        return std::vector<const HostTensor*>{&Get(fused_name, suffix, shape(2 * ffn))};
      }
      return std::vector<const HostTensor*>{&Get(gate_name, suffix, shape(ffn)),
                                            &Get(up_name, suffix, shape(ffn))};
    };
    const std::vector<Place> gate_up = {
        {InLayer(beside ? modules_.beside_gate : modules_.gate), 0, ffn},
        {InLayer(beside ? modules_.beside_up : modules_.up), ffn, ffn},
        {InLayer(modules_.fused_gate_up), 0, 2 * ffn},
        {InLayer(modules_.shared_gate_up), 0, 2 * ffn}};
    const std::vector<Place> down = {
        {InLayer(beside ? modules_.beside_down : modules_.down), 0, hidden()},
        {InLayer(modules_.shared_down), 0, hidden()}};
    const std::int64_t halves[] = {ffn, ffn};
    layer.gate_up = load_.ProductMatrix(parts("weight", true), {}, gate_up, halves);
    layer.gate_up_more = load_.Apart(gate_up, hidden());
    layer.down = load_.ProductMatrix({&Get(down_name, "weight", {hidden(), ffn})}, {}, down);
    layer.down_more = load_.Apart(down, ffn);
    if (config_.mlp_bias) {
      layer.gate_up_bias = load_.Vector(parts("bias", false));
      layer.down_bias = load_.Vector({&Get(down_name, "bias", {hidden()})});
    }
  }

  // Files that store Q and K for rotation of neighbouring pairs have row 2 i + s of a head where we
  // want row s * half + i. Those with gates of the output have each head's after its query.
  std::vector<std::int32_t> QkvRowOrder() const {
    if (config_.output_gate) {
      std::vector<std::int32_t> order = RowsOfHeads(0);
      for (std::int64_t row = 2 * query_size(); row < 2 * (query_size() + key_size()); ++row) {
        order.push_back(static_cast<std::int32_t>(row));
      }
      return order;
    }
    if (!config_.interleaved_qk_rows) return {};
    std::vector<std::int32_t> order(static_cast<size_t>(query_size() + 2 * key_size()));
    const int half = head_dim() / 2;
    for (size_t row = 0; row < order.size(); ++row) {
      const int within = static_cast<int>(row) % head_dim();
      const int head_start = static_cast<int>(row) - within;
      const bool is_value = static_cast<std::int64_t>(row) >= query_size() + key_size();
      order[row] =
          is_value ? static_cast<int>(row) : head_start + 2 * (within % half) + within / half;
    }
    return order;
  }

  VectorRef Norm(const char* name) { return NormOf(Get(name, "weight", {hidden()})); }

  VectorRef NormOf(const HostTensor& tensor, float scale = 1.0f) {
    std::vector<float> values(static_cast<size_t>(tensor.columns()));
    Dequantize(tensor.dtype, tensor.bytes, values);
    for (float& value : values) {
      if (config_.norms_minus_one) value += 1.0f;
      value *= scale;
    }
    return kernels_.LoadVector(values);
  }

  bool Has(const char* name) const { return store_.Has(prefix_ + name + ".weight"); }

  const HostTensor& Get(const char* name, const char* suffix,
                        const std::vector<std::int64_t>& shape) const {
    return store_.Get(prefix_ + name + "." + suffix, shape);
  }

  std::string InLayer(const char* name) const { return module_prefix_ + name; }

  const ModelConfig& config_;
  const TensorStore& store_;
  bool gguf_;
  const TensorNames& names_;
  const TensorNames& modules_;  // as adapters name them
  std::string root_ = kHuggingFaceRoot, logits_name_{names_.logits};
  std::string embedding_module_, logits_module_;  // adapters' names
  Kernels& kernels_;
  ModelWeights weights_;
  MatrixLoader load_;
  int layer_ = 0;                       // being loaded
  std::string prefix_, module_prefix_;  // of the layer being loaded: the file's, and adapters'
};

}  // namespace

ModelWeights LoadWeights(const ModelConfig& config, const TensorStore& store, TensorNaming naming,
                         Kernels& kernels, const LoadProgress& progress,
                         const AdaptersToLoad& adapters) {
  return DecoderLoader(config, store, naming, kernels, progress, adapters).Load();
}

}  // namespace banyan
