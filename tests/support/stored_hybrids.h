// Random models whose layers keep states, as GGUF files that llama.cpp's quantiser could have
// written: matrices in blocks of several types, a smaller type where rows are no whole blocks. The
// first and the last of three layers keep states, the other has attention.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "support/gguf_writer.h"
#include "tensor/narrow_floats.h"
#include "tensor/quantization.h"

namespace banyan::testing_support {

// What a type is called in a file, and where a block has 16-bit scales.
struct GgufType {
  DType type;
  std::uint32_t number;
  std::vector<size_t> scales = {};
};

inline const std::vector<GgufType>& GgufTypes() {
  static const std::vector<GgufType> types = {
      {DType::kF32, 0},           {DType::kF16, 1, {0}},      {DType::kBF16, 30},
      {DType::kQ4_0, 2, {0}},     {DType::kQ4_1, 3, {0, 2}},  {DType::kQ5_0, 6, {0}},
      {DType::kQ5_1, 7, {0, 2}},  {DType::kQ8_0, 8, {0}},     {DType::kQ2_K, 10, {80, 82}},
      {DType::kQ3_K, 11, {108}},  {DType::kQ4_K, 12, {0, 2}}, {DType::kQ5_K, 13, {0, 2}},
      {DType::kQ6_K, 14, {208}},  {DType::kIQ2_XXS, 16, {0}}, {DType::kIQ2_XS, 17, {0}},
      {DType::kIQ3_XXS, 18, {0}}, {DType::kIQ1_S, 19, {0}},   {DType::kIQ4_NL, 20, {0}},
      {DType::kIQ3_S, 21, {0}},   {DType::kIQ2_S, 22, {0}},   {DType::kIQ4_XS, 23, {0}},
      {DType::kIQ1_M, 29},        {DType::kTQ1_0, 34, {52}},  {DType::kTQ2_0, 35, {64}},
      {DType::kMXFP4, 39},
  };
  return types;
}

inline const GgufType& GgufTypeOf(DType type) {
  for (const GgufType& known : GgufTypes()) {
    if (known.type == type) return known;
  }
  return GgufTypes().front();
}

// As quantisers do it.
inline DType FittingType(DType type, std::int64_t columns) {
  if (columns % TraitsOf(type).block == 0) return type;
  if (columns % 32 != 0) return DType::kF16;
  switch (type) {
    case DType::kQ5_K:
      return DType::kQ5_1;
    case DType::kQ6_K:
      return DType::kQ8_0;
    case DType::kQ4_K:
      return DType::kQ5_0;
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kTQ1_0:
    case DType::kTQ2_0:
      return DType::kQ4_0;
    default:
      return DType::kIQ4_NL;
  }
}

inline void Put16(std::vector<std::byte>& bytes, size_t at, std::uint16_t value) {
  bytes[at] = static_cast<std::byte>(value & 0xff);
  bytes[at + 1] = static_cast<std::byte>(value >> 8);
}
inline void Put32(std::vector<std::byte>& bytes, size_t at, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  Put16(bytes, at, static_cast<std::uint16_t>(bits));
  Put16(bytes, at + 2, static_cast<std::uint16_t>(bits >> 16));
}

struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  DType type = DType::kF32;
  std::vector<std::byte> bytes;
  size_t count = 0;
};

// Scales such that values are about `size`.
inline void ScaleBlocks(StoredTensor& stored, float size) {
  const std::vector<size_t>& scales = GgufTypeOf(stored.type).scales;
  if (scales.empty() || stored.type == DType::kF16) return;
  const auto block = static_cast<size_t>(TraitsOf(stored.type).bytes);
  std::vector<float> values(stored.count);
  float unit = 0.01f;
  for (int round = 0; round < 2; ++round) {  // with any unit, then with the one that is right
    for (size_t at = 0; at < stored.bytes.size(); at += block) {
      for (const size_t scale : scales) Put16(stored.bytes, at + scale, FloatToF16(unit));
    }
    Dequantize(stored.type, stored.bytes, values);
    double sum = 0.0;
    for (const float value : values) sum += double{value} * value;
    unit *= size / static_cast<float>(std::sqrt(sum / static_cast<double>(values.size())));
  }
}

// Most matrices, and those that quantisers keep in a larger type.
struct StoredMix {
  DType usual = DType::kQ4_K, better = DType::kQ6_K;
};

class StoredHybrid {
 public:
  static constexpr int kVocab = 200;

  // `architecture`: of GGUF; "qwen3next old" has the tensors of its first files.
  StoredHybrid(const std::string& architecture, const StoredMix& mix, std::uint32_t seed = 3)
      : old_(architecture.ends_with(" old")),
        architecture_(architecture.substr(0, architecture.find(' '))),
        mix_(mix),
        random_(seed) {
    Matrix("token_embd.weight", kVocab, kHidden, mix_.usual);
    Matrix("output.weight", kVocab, kHidden, mix_.better);
    Norm(lfm2() ? "token_embd_norm.weight" : "output_norm.weight", {kHidden});
    for (int layer = 0; layer < 3; ++layer) {
      prefix_ = "blk." + std::to_string(layer) + ".";
      Norm(prefix_ + "attn_norm.weight", {kHidden});
      Norm(prefix_ + (qwen() ? "post_attention_norm.weight" : "ffn_norm.weight"), {kHidden});
      if (layer == 1) {
        AddAttention();
      } else if (lfm2()) {
        AddConvolution();
      } else if (qwen()) {
        AddDelta();
      } else {
        AddMamba();
      }
      AddBlock();
    }
  }

  static const std::vector<std::string>& Architectures() {
    static const std::vector<std::string> all = {"lfm2",      "qwen35",        "qwen35moe",
                                                 "qwen3next", "qwen3next old", "granitehybrid"};
    return all;
  }

  // `values`: all as float32.
  std::filesystem::path Write(const std::filesystem::path& file, bool values = false) const {
    GgufWriter writer = Header();
    for (const StoredTensor& tensor : tensors_) {
      if (values) {
        std::vector<float> floats(tensor.count);
        Dequantize(tensor.type, tensor.bytes, floats);
        writer.TensorF32(tensor.name, tensor.shape, floats);
      } else {
        writer.Tensor(tensor.name, tensor.shape, GgufTypeOf(tensor.type).number, tensor.bytes);
      }
    }
    writer.Write(file);
    return file;
  }

  // How many tensors have each type.
  std::map<DType, int> Types() const {
    std::map<DType, int> types;
    for (const StoredTensor& tensor : tensors_) ++types[tensor.type];
    return types;
  }

 private:
  static constexpr int kHidden = 256, kHeads = 4, kKvHeads = 2, kHeadDim = 64;
  static constexpr int kKeyHeads = 2, kStateHeads = 4, kKeyDim = 32, kValueDim = 64;
  static constexpr int kExperts = 4, kInner = 96, kBeside = 288;  // no whole blocks of 256
  static constexpr int kMambaHeads = 8, kMambaGroups = 2, kMambaKeyDim = 16, kMambaDim = 64;

  bool lfm2() const { return architecture_ == "lfm2"; }
  bool qwen() const { return architecture_.starts_with("qwen"); }
  bool mixture() const { return qwen() && architecture_ != "qwen35"; }
  int Ffn() const { return lfm2() ? 512 : qwen() ? kBeside : 200; }  // 200: 16 bits

  float Uniform(float least, float most) {
    return least + (most - least) * static_cast<float>(random_() * 0x1p-32);
  }

  // Random codes; scales such that values are about `size`.
  StoredTensor Blocks(const std::string& name, std::vector<std::int64_t> shape, DType type,
                      float size) {
    StoredTensor stored{name, std::move(shape), type, {}, 1};
    for (const std::int64_t extent : stored.shape) stored.count *= static_cast<size_t>(extent);
    const DTypeTraits& traits = TraitsOf(type);
    const auto block = static_cast<size_t>(traits.bytes);
    std::vector<std::byte>& bytes = stored.bytes;
    bytes.resize(stored.count / static_cast<size_t>(traits.block) * block);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_() >> 24);
    for (size_t at = 0; at < bytes.size(); at += block) {
      const float value = Uniform(-1.7f, 1.7f) * size;
      if (type == DType::kF32) Put32(bytes, at, value);
      if (type == DType::kF16) Put16(bytes, at, FloatToF16(value));
      if (type == DType::kBF16) Put16(bytes, at, FloatToBF16(value));
      if (type == DType::kIQ1_M)
        bytes[at + 55] = (bytes[at + 55] & std::byte{0x8f}) | std::byte{0x20};
      if (type == DType::kMXFP4) bytes[at] = static_cast<std::byte>(118 + random_() % 4);
    }
    ScaleBlocks(stored, size);
    return stored;
  }

  void Matrix(const std::string& name, std::int64_t rows, std::int64_t columns, DType type) {
    const float size = name.starts_with("token") ? 1.0f : 1.0f / std::sqrt(columns);
    tensors_.push_back(Blocks(name, {rows, columns}, FittingType(type, columns), size));
  }
  void Usual(const std::string& name, std::int64_t rows, std::int64_t columns) {
    Matrix(prefix_ + name + ".weight", rows, columns, mix_.usual);
  }
  void Better(const std::string& name, std::int64_t rows, std::int64_t columns) {
    Matrix(prefix_ + name + ".weight", rows, columns, mix_.better);
  }
  void Experts(const std::string& name, std::int64_t rows, std::int64_t columns, DType type) {
    tensors_.push_back(Blocks(prefix_ + name + ".weight", {kExperts, rows, columns},
                              FittingType(type, columns), 2.0f / std::sqrt(columns)));
  }
  void Floats(const std::string& name, std::vector<std::int64_t> shape, float mean, float spread) {
    StoredTensor stored = Blocks(name, std::move(shape), DType::kF32, 1.0f);
    for (size_t i = 0; i < stored.count; ++i) {
      Put32(stored.bytes, 4 * i, mean + Uniform(-spread, spread));
    }
    tensors_.push_back(std::move(stored));
  }
  void Norm(const std::string& name, std::vector<std::int64_t> shape) {
    Floats(name, std::move(shape), 1.0f, 0.2f);
  }

  void AddAttention() {
    const int query = kHeads * kHeadDim, key = kKvHeads * kHeadDim;
    Usual("attn_q", qwen() ? 2 * query : query, kHidden);
    Usual("attn_k", key, kHidden);
    Better("attn_v", key, kHidden);
    Usual("attn_output", kHidden, query);
    if (!lfm2() && !qwen()) return;
    Norm(prefix_ + "attn_q_norm.weight", {kHeadDim});
    Norm(prefix_ + "attn_k_norm.weight", {kHeadDim});
  }

  void AddConvolution() {
    Usual("shortconv.in_proj", 3 * kHidden, kHidden);
    Floats(prefix_ + "shortconv.conv.weight", {kHidden, 3}, 0.0f, 1.0f);
    Usual("shortconv.out_proj", kHidden, kHidden);
  }

  void AddHeads(int heads, const std::vector<std::int64_t>& shape) {
    Floats(prefix_ + "ssm_a", shape, -1.0f, 0.8f);
    Floats(prefix_ + "ssm_dt.bias", {heads}, -1.0f, 0.5f);
  }

  void AddDelta() {
    const int values = kStateHeads * kValueDim, channels = 2 * kKeyHeads * kKeyDim + values;
    if (old_) {
      Usual("ssm_in", channels + values, kHidden);
    } else {
      Better("attn_qkv", channels, kHidden);
      Usual("attn_gate", values, kHidden);
    }
    if (architecture_ == "qwen3next") {
      Usual("ssm_ba", 2 * kStateHeads, kHidden);
    } else {
      Usual("ssm_alpha", kStateHeads, kHidden);
      Usual("ssm_beta", kStateHeads, kHidden);
    }
    Floats(prefix_ + "ssm_conv1d.weight", {channels, 4}, 0.0f, 0.9f);
    AddHeads(kStateHeads, {kStateHeads});
    Norm(prefix_ + "ssm_norm.weight", {kValueDim});
    Better("ssm_out", kHidden, values);
  }

  void AddMamba() {
    const int values = kMambaHeads * kMambaDim, keys = 2 * kMambaGroups * kMambaKeyDim;
    Usual("ssm_in", 2 * values + keys + kMambaHeads, kHidden);
    Floats(prefix_ + "ssm_conv1d.weight", {values + keys, 4}, 0.0f, 0.9f);
    Floats(prefix_ + "ssm_conv1d.bias", {values + keys}, 0.0f, 0.3f);
    AddHeads(kMambaHeads, {kMambaHeads, 1});
    Floats(prefix_ + "ssm_d", {kMambaHeads, 1}, 1.0f, 0.5f);
    Norm(prefix_ + "ssm_norm.weight", {kMambaGroups, values / kMambaGroups});
    Usual("ssm_out", kHidden, values);
  }

  void AddBlock() {
    if (!mixture()) {
      Usual("ffn_gate", Ffn(), kHidden);
      Usual("ffn_up", Ffn(), kHidden);
      Better("ffn_down", kHidden, Ffn());
      return;
    }
    Floats(prefix_ + "ffn_gate_inp.weight", {kExperts, kHidden}, 0.0f, 0.1f);
    Experts("ffn_gate_exps", kInner, kHidden, mix_.usual);
    Experts("ffn_up_exps", kInner, kHidden, mix_.usual);
    Experts("ffn_down_exps", kHidden, kInner, mix_.better);
    Usual("ffn_gate_shexp", kBeside, kHidden);
    Usual("ffn_up_shexp", kBeside, kHidden);
    Better("ffn_down_shexp", kHidden, kBeside);
    Floats(prefix_ + "ffn_gate_inp_shexp.weight", {kHidden}, 0.0f, 0.1f);  // a matrix of one row
  }

  GgufWriter Header() const {
    GgufWriter writer;
    const std::string prefix = architecture_ + ".";
    const auto number = [&](const char* key, int value) {
      writer.U32(prefix + key, static_cast<std::uint32_t>(value));
    };
    writer.String("general.architecture", architecture_);
    number("block_count", 3);
    number("context_length", 4096);
    number("embedding_length", kHidden);
    number("feed_forward_length", Ffn());
    number("attention.head_count", kHeads);
    number("attention.key_length", kHeadDim);
    number("attention.value_length", kHeadDim);
    number("vocab_size", kVocab);
    writer.F32(prefix + "attention.layer_norm_rms_epsilon", 1e-5f);
    writer.F32(prefix + "rope.freq_base", 1e4f);
    if (qwen()) {
      number("attention.head_count_kv", kKvHeads);
      number("full_attention_interval", 2);
      number("rope.dimension_count", kHeadDim / 4);
      AddHeadKeys(writer, {4, kKeyDim, kKeyHeads, kStateHeads, kStateHeads * kValueDim});
    } else {
      const std::vector<std::uint32_t> heads = {0, kKvHeads, 0};
      writer.Array<std::uint32_t>(prefix + "attention.head_count_kv", 4, heads);
    }
    if (lfm2()) number("shortconv.l_cache", 3);
    if (architecture_ == "granitehybrid") {
      AddHeadKeys(writer, {4, kMambaKeyDim, kMambaGroups, kMambaHeads, kMambaHeads * kMambaDim});
    }
    if (mixture()) {
      number("expert_count", kExperts);
      number("expert_used_count", 2);
      number("expert_feed_forward_length", kInner);
      number("expert_shared_feed_forward_length", kBeside);
    }
    return writer;
  }

  void AddHeadKeys(GgufWriter& writer, const std::vector<int>& values) const {
    static constexpr const char* kKeys[] = {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count",
                                            "ssm.time_step_rank", "ssm.inner_size"};
    for (size_t i = 0; i < values.size(); ++i) {
      writer.U32(architecture_ + "." + kKeys[i], static_cast<std::uint32_t>(values[i]));
    }
  }

  const bool old_;
  const std::string architecture_;
  const StoredMix mix_;
  std::mt19937 random_;
  std::string prefix_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace banyan::testing_support
