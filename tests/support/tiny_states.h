// Tiny random models some of whose layers keep states, as Hugging Face directories: the first and
// the last of three layers, the other has attention. Sizes are no multiples of 16.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "support/safetensors_writer.h"

namespace banyan::testing_support {

inline const std::vector<std::string>& StateFamilies() {
  static const std::vector<std::string> families = {
      "lfm2",       "qwen3_5_text",     "qwen3_5_moe_text",
      "qwen3_next", "granitemoehybrid", "granite mixture"};
  return families;
}

class TinyStates {
 public:
  TinyStates(const std::string& family, std::uint32_t seed) : family_(family), random_(seed) {
    Matrix("model.embed_tokens.weight", kVocab, kHidden, 1.0f);
    Norm(lfm2() ? "model.embedding_norm.weight" : "model.norm.weight", kHidden);
    Matrix("lm_head.weight", kVocab, kHidden, 2.0f * Fan(kHidden));
    for (int layer = 0; layer < 3; ++layer) {
      prefix_ = "model.layers." + std::to_string(layer) + ".";
      Norm(prefix_ + (lfm2() ? "operator_norm.weight" : "input_layernorm.weight"), kHidden);
      Norm(prefix_ + (lfm2() ? "ffn_norm.weight" : "post_attention_layernorm.weight"), kHidden);
      if (layer == 1) {
        AddAttention();
      } else if (lfm2()) {
        AddConvolution();
      } else if (granite()) {
        AddMamba();
      } else {
        AddDelta();
      }
      AddBlock();
    }
  }

  std::filesystem::path Write(const std::filesystem::path& directory) const {
    std::filesystem::create_directories(directory);
    std::ofstream(directory / "config.json") << Config();
    writer_.Write(directory / "model.safetensors");
    return directory;
  }

 private:
  static constexpr int kVocab = 200, kHidden = 48, kHeads = 4, kKvHeads = 2, kHeadDim = 12;
  static constexpr int kFfn = 40, kExperts = 6, kInner = 24;
  static constexpr int kKeyHeads = 2, kStateHeads = 4, kKeyDim = 6, kValueDim = 10;

  bool lfm2() const { return family_ == "lfm2"; }
  bool granite() const { return family_.starts_with("granite"); }
  bool gated() const { return !lfm2() && !granite(); }
  bool mixture() const {
    return family_ == "qwen3_5_moe_text" || family_ == "qwen3_next" || family_ == "granite mixture";
  }

  std::string Config() const {
    std::string config = R"({"model_type": ")" + (granite() ? "granitemoehybrid" : family_) +
                         R"(", "vocab_size": 200,
      "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 12, "eos_token_id": null, "intermediate_size": )" +
                         std::string(granite() ? "24" : "40") + R"(,
      "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "tie_word_embeddings": false)";
    if (lfm2()) {
      config += R"(, "layer_types": ["conv", "full_attention", "conv"], "conv_L_cache": 3,
        "block_auto_adjust_ff_dim": false)";
    } else if (granite()) {
      config += R"(, "num_experts_per_tok": 2, "num_local_experts": )" +
                std::string(mixture() ? "6" : "0");
      config += R"(, "layer_types": ["mamba", "attention", "mamba"],
        "shared_intermediate_size": 40, "mamba_n_heads": 8, "mamba_d_head": 12,
        "mamba_n_groups": 2, "mamba_d_state": 6, "mamba_d_conv": 4, "mamba_conv_bias": true,
        "mamba_proj_bias": true, "residual_multiplier": 0.7, "attention_multiplier": 0.3)";
    } else {
      config += R"(, "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 6,
        "linear_value_head_dim": 10, "linear_conv_kernel_dim": 4, "partial_rotary_factor": 0.5,
        "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
        "norm_topk_prob": true, "shared_expert_intermediate_size": 40)";
    }
    return config + "}";
  }

  static float Fan(std::int64_t columns) { return 1.0f / std::sqrt(static_cast<float>(columns)); }

  float Normal() {
    double sum = -2.0;
    for (int i = 0; i < 4; ++i) sum += random_() * 0x1p-32;
    return static_cast<float>(sum * std::sqrt(3.0));
  }

  void Values(const std::string& name, const std::vector<std::int64_t>& shape, float mean,
              float spread) {
    std::int64_t size = 1;
    for (const std::int64_t extent : shape) size *= extent;
    std::vector<float> values(static_cast<size_t>(size));
    for (float& value : values) value = mean + spread * Normal();
    writer_.TensorF32(name, shape, values);
  }
  void Matrix(const std::string& name, std::int64_t rows, std::int64_t columns, float scale) {
    Values(name, {rows, columns}, 0.0f, scale);
  }
  void Product(const std::string& name, std::int64_t rows, std::int64_t columns) {
    Matrix(prefix_ + name + ".weight", rows, columns, Fan(columns));
  }
  // The files of Qwen3.5 have weights less one.
  void Norm(const std::string& name, std::int64_t size) {
    Values(name, {size}, gated() ? 0.0f : 1.0f, 0.1f);
  }

  void AddAttention() {
    const std::int64_t query = kHeads * kHeadDim, key = kKvHeads * kHeadDim;
    Product("self_attn.q_proj", gated() ? 2 * query : query, kHidden);
    Product("self_attn.k_proj", key, kHidden);
    Product("self_attn.v_proj", key, kHidden);
    Product(lfm2() ? "self_attn.out_proj" : "self_attn.o_proj", kHidden, query);
    if (granite()) return;
    Norm(prefix_ + (lfm2() ? "self_attn.q_layernorm.weight" : "self_attn.q_norm.weight"), kHeadDim);
    Norm(prefix_ + (lfm2() ? "self_attn.k_layernorm.weight" : "self_attn.k_norm.weight"), kHeadDim);
  }

  void AddConvolution() {
    Product("conv.in_proj", 3 * kHidden, kHidden);
    Values(prefix_ + "conv.conv.weight", {kHidden, 1, 3}, 0.0f, 0.6f);
    Product("conv.out_proj", kHidden, kHidden);
  }

  void AddHeads(const std::string& part, std::int64_t heads) {
    Values(prefix_ + part + "A_log", {heads}, 0.0f, 1.0f);
    Values(prefix_ + part + "dt_bias", {heads}, -1.0f, 0.5f);
  }

  void AddDelta() {
    const std::int64_t values = kStateHeads * kValueDim;
    const std::int64_t channels = 2 * kKeyHeads * kKeyDim + values;
    if (family_ == "qwen3_next") {
      Product("linear_attn.in_proj_qkvz", channels + values, kHidden);
      Product("linear_attn.in_proj_ba", 2 * kStateHeads, kHidden);
    } else {
      Product("linear_attn.in_proj_qkv", channels, kHidden);
      Product("linear_attn.in_proj_z", values, kHidden);
      Product("linear_attn.in_proj_a", kStateHeads, kHidden);
      Product("linear_attn.in_proj_b", kStateHeads, kHidden);
    }
    Values(prefix_ + "linear_attn.conv1d.weight", {channels, 1, 4}, 0.0f, 0.6f);
    AddHeads("linear_attn.", kStateHeads);
    Values(prefix_ + "linear_attn.norm.weight", {kValueDim}, 1.0f, 0.1f);
    Product("linear_attn.out_proj", kHidden, values);
  }

  void AddMamba() {
    constexpr std::int64_t heads = 8, groups = 2, state = 6, values = 2 * kHidden;
    constexpr std::int64_t channels = values + 2 * groups * state,
                           inputs = values + channels + heads;
    Product("mamba.in_proj", inputs, kHidden);
    Values(prefix_ + "mamba.in_proj.bias", {inputs}, 0.0f, 0.3f);
    Values(prefix_ + "mamba.conv1d.weight", {channels, 1, 4}, 0.0f, 0.6f);
    Values(prefix_ + "mamba.conv1d.bias", {channels}, 0.0f, 0.3f);
    AddHeads("mamba.", heads);
    Values(prefix_ + "mamba.D", {heads}, 1.0f, 0.3f);
    Values(prefix_ + "mamba.norm.weight", {values}, 1.0f, 0.1f);
    Product("mamba.out_proj", kHidden, values);
    Values(prefix_ + "mamba.out_proj.bias", {kHidden}, 0.0f, 0.3f);
  }

  void AddBlock() {
    if (granite()) {
      Product("shared_mlp.input_linear", 2 * kFfn, kHidden);
      Product("shared_mlp.output_linear", kHidden, kFfn);
      if (!mixture()) return;
      Product("block_sparse_moe.router.layer", kExperts, kHidden);
      Values(prefix_ + "block_sparse_moe.input_linear.weight", {kExperts, 2 * kInner, kHidden},
             0.0f, 2.0f * Fan(kHidden));
      Values(prefix_ + "block_sparse_moe.output_linear.weight", {kExperts, kHidden, kInner}, 0.0f,
             2.0f * Fan(kInner));
      return;
    }
    const std::string block = lfm2() ? "feed_forward." : mixture() ? "mlp.shared_expert." : "mlp.";
    Product(block + (lfm2() ? "w1" : "gate_proj"), kFfn, kHidden);
    Product(block + (lfm2() ? "w3" : "up_proj"), kFfn, kHidden);
    Product(block + (lfm2() ? "w2" : "down_proj"), kHidden, kFfn);
    if (!mixture()) return;
    Product("mlp.shared_expert_gate", 1, kHidden);
    Product("mlp.gate", kExperts, kHidden);
    Values(prefix_ + "mlp.experts.gate_up_proj", {kExperts, 2 * kInner, kHidden}, 0.0f,
           2.0f * Fan(kHidden));
    Values(prefix_ + "mlp.experts.down_proj", {kExperts, kHidden, kInner}, 0.0f,
           2.0f * Fan(kInner));
  }

  const std::string family_;
  std::mt19937 random_;
  std::string prefix_;
  SafetensorsWriter writer_;
};

}  // namespace banyan::testing_support
