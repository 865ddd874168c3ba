// Random models whose layers keep states, as GGUF files that llama.cpp's quantiser could have
// written: matrices in blocks of several types, a smaller type where rows are no whole blocks. The
// first and the last of three layers keep states, the other has attention.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "support/gguf_writer.h"
#include "support/stored_blocks.h"

namespace banyan::testing_support {

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
    for (const StoredTensor& tensor : tensors_) WriteStored(tensor, values, writer);
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
  static constexpr int kExperts = 4, kInner = 96,
                       kBeside = 288;  // no whole blocks of 256
  static constexpr int kMambaHeads = 8, kMambaGroups = 2, kMambaKeyDim = 16, kMambaDim = 64;

  bool lfm2() const { return architecture_ == "lfm2"; }
  bool qwen() const { return architecture_.starts_with("qwen"); }
  bool mixture() const { return qwen() && architecture_ != "qwen35"; }
  int Ffn() const { return lfm2() ? 512 : qwen() ? kBeside : 200; }  // 200: 16 bits

  void Matrix(const std::string& name, std::int64_t rows, std::int64_t columns, DType type) {
    const float size = name.starts_with("token") ? 1.0f : 1.0f / std::sqrt(columns);
    tensors_.push_back(
        RandomBlocks(name, {rows, columns}, FittingType(type, columns), size, random_));
  }
  void Usual(const std::string& name, std::int64_t rows, std::int64_t columns) {
    Matrix(prefix_ + name + ".weight", rows, columns, mix_.usual);
  }
  void Better(const std::string& name, std::int64_t rows, std::int64_t columns) {
    Matrix(prefix_ + name + ".weight", rows, columns, mix_.better);
  }
  void Experts(const std::string& name, std::int64_t rows, std::int64_t columns, DType type) {
    tensors_.push_back(RandomBlocks(prefix_ + name + ".weight", {kExperts, rows, columns},
                                    FittingType(type, columns), 2.0f / std::sqrt(columns),
                                    random_));
  }
  void Floats(const std::string& name, std::vector<std::int64_t> shape, float mean, float spread) {
    StoredTensor stored =
        RandomBlocks(name, std::move(shape), DType::kF32, 0.58f * spread, random_);
    for (size_t i = 0; i < stored.count; ++i) {
      float value = 0.0f;
      std::memcpy(&value, stored.bytes.data() + 4 * i, sizeof(value));
      Put32(stored.bytes, 4 * i, mean + value);
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
    Floats(prefix_ + "ffn_gate_inp_shexp.weight", {kHidden}, 0.0f,
           0.1f);  // a matrix of one row
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
