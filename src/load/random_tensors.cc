#include "load/random_tensors.h"

#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "model/families.h"
#include "model/weights.h"
#include "tensor/narrow_floats.h"
#include "tensor/quantization.h"

namespace banyan {
namespace {

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
  void AddEqual(const std::string& name, std::vector<std::int64_t> shape, float value) {
    size_t size = 1;
    for (const std::int64_t extent : shape) size *= static_cast<size_t>(extent);
    std::vector<std::byte>& bytes = memory_.emplace_back(size * 4);
    for (size_t i = 0; i < size; ++i) std::memcpy(bytes.data() + 4 * i, &value, 4);
    store_.Add({name, DType::kF32, std::move(shape), bytes}, "random weights");
  }

  RandomTensors Take() { return {std::move(memory_), std::move(store_)}; }

 private:
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
  if (experts.beside == BlockBeside::kGated) {
    tensors.AddMatrix(prefix + "shared_expert_gate.weight", 1, hidden);
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

// Of a layer that keeps a state by the gated delta rule.
void AddState(const ModelConfig& config, const std::string& prefix, TensorMaker& tensors) {
  const StateShape& shape = config.states.shape;
  const std::int64_t hidden = config.hidden_size;
  BANYAN_CHECK(shape.rule == StateRule::kDelta && !config.states.by_key_head);
  tensors.AddMatrix(prefix + "in_proj_qkv.weight", shape.channels, hidden);
  tensors.AddMatrix(prefix + "in_proj_z.weight", shape.values(), hidden);
  tensors.AddMatrix(prefix + "in_proj_a.weight", shape.heads, hidden);
  tensors.AddMatrix(prefix + "in_proj_b.weight", shape.heads, hidden);
  tensors.AddMatrix(prefix + "out_proj.weight", hidden, shape.values());
  tensors.AddEqual(prefix + "conv1d.weight", {shape.channels, 1, shape.taps}, 0.5f);
  tensors.AddZeros(prefix + "A_log", {shape.heads});
  tensors.AddZeros(prefix + "dt_bias", {shape.heads});
  tensors.AddOnes(prefix + "norm.weight", shape.value_dim);
}

void AddAttention(const ModelConfig& config, int number, const std::string& layer,
                  TensorMaker& tensors) {
  const std::int64_t hidden = config.hidden_size;
  const KvHeads heads = config.KeysOf(number);
  const std::int64_t query = static_cast<std::int64_t>(config.heads) * heads.dim;
  const std::int64_t key = static_cast<std::int64_t>(heads.heads) * heads.dim;
  const bool whole = config.qk_norm == QkNorm::kWhole;
  tensors.AddMatrix(layer + "self_attn.q_proj.weight", query * (config.output_gate ? 2 : 1),
                    hidden);
  tensors.AddMatrix(layer + "self_attn.o_proj.weight", hidden, query);
  if (config.qk_norm != QkNorm::kNone) {
    tensors.AddOnes(layer + "self_attn.q_norm.weight", whole ? query : heads.dim);
  }
  if (config.qkv_bias) tensors.AddZeros(layer + "self_attn.q_proj.bias", {query});
  if (config.output_bias) tensors.AddZeros(layer + "self_attn.o_proj.bias", {hidden});
  if (config.attention_sinks) tensors.AddZeros(layer + "self_attn.sinks", {config.heads});
  if (!config.HasKeys(number)) return;
  if (config.qk_norm != QkNorm::kNone) {
    tensors.AddOnes(layer + "self_attn.k_norm.weight", whole ? key : heads.dim);
  }
  for (const char* name : {"k_proj", "v_proj"}) {
    if (*name == 'v' && config.Attention(number).keys_are_values) continue;
    tensors.AddMatrix(layer + "self_attn." + name + ".weight", key, hidden);
    if (config.qkv_bias) tensors.AddZeros(layer + "self_attn." + name + ".bias", {key});
  }
}

// Of layers that get values of the token itself.
void AddInputs(const ModelConfig& config, TensorMaker& tensors) {
  const std::int64_t size = config.layer_input_size, all = config.layers * size;
  const TensorNames& names = kHuggingFaceNames;
  tensors.AddMatrix(names.inputs_embedding, config.layer_input_vocab, all);
  tensors.AddMatrix(names.inputs_projection, all, config.hidden_size);
  tensors.AddOnes(names.inputs_norm, size);
  for (int i = 0; i < config.layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    tensors.AddMatrix(layer + names.input_gate + ".weight", size, config.hidden_size);
    tensors.AddMatrix(layer + names.input_projection + ".weight", config.hidden_size, size);
    tensors.AddOnes(layer + names.input_norm + ".weight", config.hidden_size);
  }
}

void AddTensors(const ModelConfig& config, TensorMaker& tensors) {
  const std::int64_t hidden = config.hidden_size;
  tensors.AddMatrix("model.embed_tokens.weight", config.vocab_size, hidden);
  for (int i = 0; i < config.layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    for (const std::string& norm : NormNames(config.norm_placement)) {
      tensors.AddOnes(layer + norm + ".weight", hidden);
    }
    if (config.HasState(i)) {
      AddState(config, layer + "linear_attn.", tensors);
    } else {
      AddAttention(config, i, layer, tensors);
    }
    if (config.layer_scales) tensors.AddOnes(layer + kHuggingFaceNames.layer_scale, 1);
    if (config.HasExperts(i)) AddExperts(config, layer + "mlp.", tensors);
    if (!config.HasBlock(i)) continue;
    const std::string block = layer + (config.HasExperts(i) ? "mlp.shared_expert." : "mlp.");
    tensors.AddMatrix(block + "gate_proj.weight", config.FfnSize(i), hidden);
    tensors.AddMatrix(block + "up_proj.weight", config.FfnSize(i), hidden);
    tensors.AddMatrix(block + "down_proj.weight", hidden, config.FfnSize(i));
  }
  if (config.layer_input_size > 0) AddInputs(config, tensors);
  tensors.AddOnes("model.norm.weight", hidden);
  if (!config.tied_embeddings) tensors.AddMatrix("lm_head.weight", config.vocab_size, hidden);
}

}  // namespace

RandomTensors MakeRandomTensors(const ModelConfig& config, DType matrix_type) {
  TensorMaker tensors(matrix_type);
  AddTensors(config, tensors);
  return tensors.Take();
}

}  // namespace banyan
