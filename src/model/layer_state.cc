#include "model/layer_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace banyan {
namespace {

// Names of GGUF for those of safetensors' layers that keep matrices.
constexpr std::pair<const char*, const char*> kNamesInGguf[] = {
    {"in_proj_qkv", "attn_qkv"},
    {"in_proj_z", "attn_gate"},
    {"in_proj_a", "ssm_alpha"},
    {"in_proj_b", "ssm_beta"},
    {"in_proj_ba", "ssm_ba"},
    {"in_proj_qkvz", "ssm_in"},
    {"in_proj", "ssm_in"},
    {"out_proj", "ssm_out"},
    {"conv1d", "ssm_conv1d"},
    {"norm", "ssm_norm"},
    {"A_log", "ssm_a"},
    {"dt_bias", "ssm_dt.bias"},
    {"D", "ssm_d"},
};

const char* PartOf(StateRule rule) {
  switch (rule) {
    case StateRule::kConvolution:
      return "conv.";
    case StateRule::kDelta:
      return "linear_attn.";
    case StateRule::kMamba2:
      return "mamba.";
  }
  return "";
}

void AddRange(std::int64_t first, std::int64_t count, std::vector<std::int32_t>& rows) {
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(static_cast<std::int32_t>(first + i));
}

// Qwen3-Next: `in_proj_qkvz` has for every key head its query, its key, the values and the gates of
// its value heads; `in_proj_ba`, which stands below, their strengths and steps. New GGUF files have
// queries, keys and values in the order of the convolution, and gates apart.
struct RowsByKeyHead {
  explicit RowsByKeyHead(const StateShape& shape) {
    const std::int64_t together = shape.heads / shape.key_heads;
    const std::int64_t key = shape.key_dim, values = together * shape.value_dim;
    const std::int64_t group = 2 * key + 2 * values, below = group * shape.key_heads;
    std::vector<std::int32_t> steps, strengths;
    for (const std::int64_t offset : {std::int64_t{0}, key}) {
      for (int head = 0; head < shape.key_heads; ++head)
        AddRange(head * group + offset, key, input);
    }
    for (int head = 0; head < shape.key_heads; ++head) {
      AddRange(head * group + 2 * key, values, input);
      AddRange(head * group + 2 * key + values, values, gate);
      AddRange(below + head * 2 * together, together, strengths);
      AddRange(below + head * 2 * together + together, together, steps);
    }
    numbers = std::move(steps);
    numbers.insert(numbers.end(), strengths.begin(), strengths.end());
  }
  // `numbers` are of `in_proj_ba`, counted from the first row of `in_proj_qkvz`.
  std::vector<std::int32_t> input, gate, numbers;
};

}  // namespace

LayerState::LayerState(const ModelConfig& config, const TensorStore& store,
                       const std::string& prefix, const std::string& modules, MatrixLoader& load,
                       TensorNaming naming)
    : config_(config),
      shape_(config.states.shape),
      store_(store),
      prefix_(prefix),
      modules_(modules + PartOf(shape_.rule)),
      load_(load),
      gguf_(naming == TensorNaming::kGguf) {}

std::string LayerState::NameOf(const std::string& name) const {
  if (!gguf_) return prefix_ + PartOf(shape_.rule) + name;
  if (shape_.rule == StateRule::kConvolution) return prefix_ + "shortconv." + name;
  const size_t end = std::min(name.find('.'), name.size());
  for (const auto& [module, named] : kNamesInGguf) {
    if (name.compare(0, end, module) != 0) continue;
    std::string tensor = prefix_ + named + name.substr(end);
    // Ollama leaves out the ending of a bias that has no matrix.
    const std::string without = prefix_ + "ssm_dt";
    return tensor == without + ".bias" && store_.Has(without) ? without : tensor;
  }
  return prefix_ + name;
}

const HostTensor& LayerState::Get(const std::string& name,
                                  const std::vector<std::int64_t>& shape) const {
  return store_.Get(NameOf(name), shape);
}

std::vector<float> LayerState::ValuesOfHeads(const std::string& name, std::int64_t first,
                                             std::int64_t second) const {
  const std::vector<std::int64_t> shape = {first, second};
  const bool two = gguf_ && store_.GetAnyShape(NameOf(name)).shape == shape;
  return Values(name, two ? shape : std::vector<std::int64_t>{first * second});
}

std::vector<float> LayerState::Values(const std::string& name,
                                      const std::vector<std::int64_t>& shape) const {
  return FiniteValues(Get(name, shape));
}

// The file has the taps of each channel together.
std::vector<float> LayerState::Taps() const {
  const char* name = shape_.rule == StateRule::kConvolution ? "conv.weight" : "conv1d.weight";
  const auto channels = static_cast<size_t>(shape_.channels),
             count = static_cast<size_t>(shape_.taps);
  const std::vector<float> stored = gguf_ ? Values(name, {shape_.channels, shape_.taps})
                                          : Values(name, {shape_.channels, 1, shape_.taps});
  std::vector<float> taps(stored.size());
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = 0; i < count; ++i) taps[i * channels + c] = stored[c * count + i];
  }
  return taps;
}

LayerState::Rows LayerState::Parts(
    const std::vector<std::pair<std::string, std::int64_t>>& names) const {
  Rows rows;
  std::int64_t first = 0;
  for (const auto& [name, count] : names) {
    rows.parts.push_back(&Get(name + ".weight", {count, config_.hidden_size}));
    rows.places.push_back({modules_ + name, first, count});
    first += count;
  }
  return rows;
}

std::vector<std::int32_t> LayerState::Untiled(std::int64_t count) const {
  std::vector<std::int32_t> rows;
  if (!shape_.tiled) return rows;
  const std::int64_t together = shape_.heads / shape_.key_heads;
  for (int head = 0; head < shape_.heads; ++head) {
    const std::int64_t own = head % shape_.key_heads * together + head / shape_.key_heads;
    AddRange(own * count, count, rows);
  }
  return rows;
}

void LayerState::PlaceByKeyHead(Rows& input, Rows& gate) const {
  const std::int64_t channels = shape_.channels, numbers = 2 * shape_.heads;
  const std::int64_t above = channels + shape_.values();  // rows of in_proj_qkvz
  RowsByKeyHead rows(shape_);
  for (std::int32_t& row : rows.numbers) row -= static_cast<std::int32_t>(above);
  const std::string wide = modules_ + "in_proj_qkvz";
  input.places = {TakenRows(wide, above, 0, std::move(rows.input)),
                  TakenRows(modules_ + "in_proj_ba", numbers, channels, std::move(rows.numbers))};
  gate.places = {TakenRows(wide, above, 0, std::move(rows.gate))};
}

void LayerState::LoadInputs(StateWeights& state) const {
  const std::int64_t channels = shape_.channels, heads = shape_.heads, values = shape_.values();
  Rows input, gate;
  std::vector<const HostTensor*> bias;
  switch (shape_.rule) {
    case StateRule::kConvolution:
      input = Parts({{"in_proj", 3 * channels}});
      if (config_.states.product_bias) bias = {&Get("in_proj.bias", {3 * channels})};
      break;
    case StateRule::kDelta:
      if (config_.states.by_key_head) {
        const RowsByKeyHead rows(shape_);
        input = gate = Parts({{"in_proj_qkvz", channels + values}, {"in_proj_ba", 2 * heads}});
        input.order = rows.input;
        input.order.insert(input.order.end(), rows.numbers.begin(), rows.numbers.end());
        gate.order = rows.gate;
        PlaceByKeyHead(input, gate);
        break;
      }
      gate = Parts({{"in_proj_z", values}});
      if (gguf_ && store_.Has(NameOf("in_proj_ba.weight"))) {
        input = Parts({{"in_proj_qkv", channels}, {"in_proj_ba", 2 * heads}});
        AddRange(0, channels, input.order);
        for (const std::int32_t row : RowsByKeyHead(shape_).numbers) {
          input.order.push_back(row - static_cast<std::int32_t>(values));
        }
        PlaceByKeyHead(input, gate);
        break;
      }
      input = Parts({{"in_proj_qkv", channels}, {"in_proj_a", heads}, {"in_proj_b", heads}});
      if (shape_.tiled) {
        const std::vector<std::int32_t> tiles = Untiled(shape_.value_dim);
        AddRange(0, channels - values, input.places[0].taken);
        for (const std::int32_t row : tiles) {
          input.places[0].taken.push_back(static_cast<std::int32_t>(channels - values) + row);
        }
        input.places[1].taken = input.places[2].taken = Untiled(1);
        gate.places[0].taken = tiles;
      }
      break;
    case StateRule::kMamba2:
      input = gate = Parts({{"in_proj", values + channels + heads}});
      AddRange(0, values, gate.order);
      AddRange(values, channels + heads, input.order);
      for (Rows* rows : {&input, &gate}) {
        rows->places = {TakenRows(modules_ + "in_proj", values + channels + heads, 0, rows->order)};
      }
      if (config_.states.product_bias) {
        bias = {&Get("in_proj.bias", {values + channels + heads})};
      }
      break;
  }
  state.input = load_.ProductMatrix(input.parts, input.order, input.places);
  state.input_more = load_.Apart(input.places, config_.hidden_size);
  if (!bias.empty()) state.input_bias = load_.Vector(bias, input.order);
  if (gate.parts.empty()) return;
  state.gate = load_.ProductMatrix(gate.parts, gate.order, gate.places);
  state.gate_more = load_.Apart(gate.places, config_.hidden_size);
  if (!bias.empty()) state.gate_bias = load_.Vector(bias, gate.order);
}

void LayerState::LoadHeads(Kernels& kernels, StateWeights& state) const {
  const std::int64_t heads = shape_.heads;
  std::vector<float> rates = ValuesOfHeads("A_log", heads, 1);
  for (float& rate : rates) {
    if (!gguf_) rate = static_cast<float>(-std::exp(static_cast<double>(rate)));
    if (rate <= 0.0f) continue;
    Throw(ErrorKind::kFormat, "tensor '{}': a rate of {}, expected none above 0", NameOf("A_log"),
          rate);
  }
  state.rates = kernels.LoadVector(rates);
  state.step_bias = kernels.LoadVector(Values("dt_bias", {heads}));
  const bool mamba = shape_.rule == StateRule::kMamba2;
  if (mamba) state.skip = kernels.LoadVector(ValuesOfHeads("D", heads, 1));
  const std::int64_t groups = mamba ? shape_.key_heads : 1;
  const std::int64_t normed = mamba ? shape_.values() : shape_.value_dim;
  state.norm = kernels.LoadVector(ValuesOfHeads("norm.weight", groups, normed / groups));
}

std::shared_ptr<const StateWeights> LayerState::Load(Kernels& kernels) const {
  auto state = std::make_shared<StateWeights>();
  LoadInputs(*state);
  state->taps = kernels.LoadVector(Taps());
  if (config_.states.convolution_bias) {
    const char* name = shape_.rule == StateRule::kConvolution ? "conv.bias" : "conv1d.bias";
    state->taps_bias = kernels.LoadVector(Values(name, {shape_.channels}));
  }
  if (shape_.heads > 0) LoadHeads(kernels, *state);
  return state;
}

void LayerState::LoadOutput(LayerWeights& layer) const {
  const std::int64_t hidden = config_.hidden_size;
  const std::int64_t columns = shape_.heads > 0 ? shape_.values() : shape_.channels;
  std::vector<AdaptedPlace> place = {{modules_ + "out_proj", 0, hidden}};
  place.front().columns = Untiled(shape_.value_dim);
  layer.output = load_.ProductMatrix({&Get("out_proj.weight", {hidden, columns})}, {}, place);
  layer.output_more = load_.Apart(place, columns);
  if (config_.states.product_bias) {
    layer.output_bias = load_.Vector({&Get("out_proj.bias", {hidden})});
  }
}

}  // namespace banyan
