// Tiny random models of Gemma 4, the same weights in both formats: the form whose layers have
// inputs and read the keys of others, and the mixture whose keys are values.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"

namespace banyan::testing_support {

class TinyGemma4 {
 public:
  static constexpr int kVocab = 120, kLayers = 7, kContext = 2048;

  explicit TinyGemma4(bool mixture) : mixture_(mixture), random_(mixture ? 11 : 7) {
    Matrix("token_embd", "embed_tokens", kVocab, kHidden, 1.0f);
    Norm("output_norm", "norm", kHidden);
    if (!mixture) {
      const int all = kLayers * kInput;
      Matrix("per_layer_token_embd", "embed_tokens_per_layer", kVocab, all, 1.0f);
      Matrix("per_layer_model_proj", "per_layer_model_projection", all, kHidden, Fan(kHidden));
      Norm("per_layer_proj_norm", "per_layer_projection_norm", kInput);
    }
    for (int layer = 0; layer < kLayers; ++layer) AddLayer(layer);
  }

  // config.json and model.safetensors in `directory`, which is made.
  std::filesystem::path WriteHuggingFace(const std::filesystem::path& directory) const {
    std::filesystem::create_directories(directory);
    std::ofstream(directory / "config.json") << ConfigJson();
    SafetensorsWriter writer;
    for (const Tensor& tensor : tensors_) {
      writer.TensorF32("model." + tensor.hf_name, tensor.shape, tensor.values);
    }
    writer.Write(directory / "model.safetensors");
    return directory;
  }

  std::filesystem::path WriteGguf(const std::filesystem::path& file) const {
    GgufWriter writer = GgufHeader();
    for (const Tensor& tensor : tensors_) {
      writer.TensorF32(tensor.gguf_name, tensor.shape, tensor.values);
    }
    // Of layers without a window; the pairs behind the first quarter do not turn.
    const int pairs = kFullDim / 2;
    std::vector<float> divisors(static_cast<size_t>(pairs), 1e30f);
    std::fill_n(divisors.begin(), pairs / 4, 1.0f);
    writer.TensorF32("rope_freqs.weight", std::vector<std::int64_t>{pairs}, divisors);
    writer.Write(file);
    return file;
  }

  // Metadata as llama.cpp's converter writes it.
  GgufWriter GgufHeader() const {
    const auto number = [](int value) { return static_cast<std::uint32_t>(value); };
    const std::string prefix = "gemma4.";
    GgufWriter writer;
    writer.String("general.architecture", "gemma4");
    writer.U32(prefix + "context_length", kContext);
    writer.U32(prefix + "embedding_length", kHidden);
    writer.U32(prefix + "embedding_length_per_layer_input", mixture_ ? 0 : kInput);
    writer.U32(prefix + "block_count", kLayers);
    writer.U32(prefix + "attention.head_count", kHeads);
    std::vector<std::uint32_t> ffn, kv_heads;
    std::vector<std::uint8_t> slides;
    for (int layer = 0; layer < kLayers; ++layer) {
      ffn.push_back(number(FfnSize(layer)));
      kv_heads.push_back(number(KvHeads(layer)));
      slides.push_back(Slides(layer) ? 1 : 0);
    }
    if (mixture_) {
      writer.U32(prefix + "feed_forward_length", kFfn);
      writer.Array<std::uint32_t>(prefix + "attention.head_count_kv", 4, kv_heads);
      writer.U32(prefix + "expert_count", kExperts);
      writer.U32(prefix + "expert_used_count", kChosen);
      writer.U32(prefix + "expert_feed_forward_length", kInner);
    } else {
      writer.Array<std::uint32_t>(prefix + "feed_forward_length", 4, ffn);
      writer.U32(prefix + "attention.head_count_kv", kKvHeads);
      writer.U32(prefix + "attention.shared_kv_layers", kSharing);
    }
    writer.Array<std::uint8_t>(prefix + "attention.sliding_window_pattern", 7, slides);
    writer.U32(prefix + "attention.sliding_window", kWindow);
    writer.U32(prefix + "attention.key_length", kFullDim);
    writer.U32(prefix + "attention.value_length", kFullDim);
    writer.U32(prefix + "attention.key_length_swa", kDim);
    writer.U32(prefix + "attention.value_length_swa", kDim);
    writer.U32(prefix + "rope.dimension_count", kFullDim);
    writer.U32(prefix + "rope.dimension_count_swa", kDim);
    writer.F32(prefix + "rope.freq_base", 1e6f);
    writer.F32(prefix + "rope.freq_base_swa", 1e4f);
    writer.F32(prefix + "attention.layer_norm_rms_epsilon", 1e-6f);
    writer.F32(prefix + "final_logit_softcapping", 30.0f);
    return writer;
  }

  std::string ConfigJson() const {
    std::string kinds;
    for (int layer = 0; layer < kLayers; ++layer) {
      kinds += kinds.empty() ? "" : ",";
      kinds += Slides(layer) ? "\"sliding_attention\"" : "\"full_attention\"";
    }
    const auto field = [](const char* key, int value) {
      return "\"" + std::string(key) + "\":" + std::to_string(value) + ",";
    };
    std::string text = "{\"model_type\":\"gemma4_text\",";
    text += field("vocab_size", kVocab) + field("hidden_size", kHidden);
    text += field("num_hidden_layers", kLayers) + field("num_attention_heads", kHeads);
    text += field("num_key_value_heads", kKvHeads) + field("head_dim", kDim);
    text += field("global_head_dim", kFullDim) + field("intermediate_size", kFfn);
    text += field("sliding_window", kWindow) + field("max_position_embeddings", kContext);
    text += field("hidden_size_per_layer_input", mixture_ ? 0 : kInput);
    if (mixture_) {
      text += "\"attention_k_eq_v\":true,\"enable_moe_block\":true,";
      text += field("num_global_key_value_heads", 1) + field("num_experts", kExperts);
      text += field("top_k_experts", kChosen) + field("moe_intermediate_size", kInner);
    } else {
      text += field("num_kv_shared_layers", kSharing) + "\"use_double_wide_mlp\":true,";
    }
    text += "\"final_logit_softcapping\":30.0,\"rms_norm_eps\":1e-6,\"eos_token_id\":null,";
    return text + "\"layer_types\":[" + kinds + "]}";
  }

 private:
  struct Tensor {
    std::string gguf_name, hf_name;
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };

  static constexpr int kHidden = 48, kHeads = 4, kKvHeads = 2, kDim = 12, kFullDim = 16;
  static constexpr int kFfn = 80, kInput = 8, kSharing = 3, kWindow = 24;
  static constexpr int kExperts = 6, kChosen = 2, kInner = 24;

  static bool Slides(int layer) { return layer != 2 && layer != kLayers - 1; }
  bool HasKeys(int layer) const { return mixture_ || layer < kLayers - kSharing; }
  int KvHeads(int layer) const { return mixture_ && !Slides(layer) ? 1 : kKvHeads; }
  int FfnSize(int layer) const { return HasKeys(layer) ? kFfn : 2 * kFfn; }

  static float Fan(int columns) { return 1.0f / std::sqrt(static_cast<float>(columns)); }

  // About normal with variance 1: sums of uniforms, since library distributions differ.
  float Normal() {
    double sum = -2.0;
    for (int i = 0; i < 4; ++i) sum += random_() * 0x1p-32;
    return static_cast<float>(sum * std::sqrt(3.0));
  }

  Tensor& Add(std::string gguf, std::string hf, std::vector<std::int64_t> shape) {
    std::int64_t size = 1;
    for (const std::int64_t extent : shape) size *= extent;
    tensors_.push_back({std::move(gguf), std::move(hf), std::move(shape), {}});
    tensors_.back().values.resize(static_cast<size_t>(size));
    return tensors_.back();
  }
  void Random(std::string gguf, std::string hf, std::vector<std::int64_t> shape, float scale) {
    for (float& value : Add(std::move(gguf), std::move(hf), std::move(shape)).values) {
      value = scale * Normal();
    }
  }
  void Matrix(const std::string& gguf, const std::string& hf, int rows, int columns, float scale) {
    Random(gguf + ".weight", hf + ".weight", {rows, columns}, scale);
  }
  // Values around 1: norms and scales, by their whole names.
  void AroundOne(const std::string& gguf, const std::string& hf, int size) {
    for (float& value : Add(gguf, hf, {size}).values) value = 1.0f + 0.1f * Normal();
  }
  void Norm(const std::string& gguf, const std::string& hf, int size) {
    AroundOne(gguf + ".weight", hf + ".weight", size);
  }

  void AddLayer(int layer) {
    const std::string gguf = "blk." + std::to_string(layer) + ".";
    const std::string hf = "layers." + std::to_string(layer) + ".";
    const int dim = Slides(layer) ? kDim : kFullDim, ffn = FfnSize(layer);
    const int query = kHeads * dim, key = KvHeads(layer) * dim;
    Norm(gguf + "attn_norm", hf + "input_layernorm", kHidden);
    Norm(gguf + "post_attention_norm", hf + "post_attention_layernorm", kHidden);
    Norm(gguf + "ffn_norm", hf + "pre_feedforward_layernorm", kHidden);
    Norm(gguf + "post_ffw_norm", hf + "post_feedforward_layernorm", kHidden);
    AroundOne(gguf + "layer_output_scale.weight", hf + "layer_scalar", 1);
    Matrix(gguf + "attn_q", hf + "self_attn.q_proj", query, kHidden, 2.0f * Fan(kHidden));
    Norm(gguf + "attn_q_norm", hf + "self_attn.q_norm", dim);
    if (HasKeys(layer)) {
      Matrix(gguf + "attn_k", hf + "self_attn.k_proj", key, kHidden, Fan(kHidden));
      Norm(gguf + "attn_k_norm", hf + "self_attn.k_norm", dim);
      if (!mixture_ || Slides(layer)) {
        Matrix(gguf + "attn_v", hf + "self_attn.v_proj", key, kHidden, Fan(kHidden));
      }
    }
    Matrix(gguf + "attn_output", hf + "self_attn.o_proj", kHidden, query, 2.0f * Fan(query));
    Matrix(gguf + "ffn_gate", hf + "mlp.gate_proj", ffn, kHidden, Fan(kHidden));
    Matrix(gguf + "ffn_up", hf + "mlp.up_proj", ffn, kHidden, Fan(kHidden));
    Matrix(gguf + "ffn_down", hf + "mlp.down_proj", kHidden, ffn, 2.0f * Fan(ffn));
    if (mixture_) {
      AddExperts(gguf, hf);
    } else {
      Matrix(gguf + "inp_gate", hf + "per_layer_input_gate", kInput, kHidden, Fan(kHidden));
      Matrix(gguf + "proj", hf + "per_layer_projection", kHidden, kInput, 2.0f * Fan(kInput));
      Norm(gguf + "post_norm", hf + "post_per_layer_input_norm", kHidden);
    }
  }

  void AddExperts(const std::string& gguf, const std::string& hf) {
    Norm(gguf + "pre_ffw_norm_2", hf + "pre_feedforward_layernorm_2", kHidden);
    Norm(gguf + "post_ffw_norm_1", hf + "post_feedforward_layernorm_1", kHidden);
    Norm(gguf + "post_ffw_norm_2", hf + "post_feedforward_layernorm_2", kHidden);
    Matrix(gguf + "ffn_gate_inp", hf + "router.proj", kExperts, kHidden, Fan(kHidden));
    AroundOne(gguf + "ffn_gate_inp.scale", hf + "router.scale", kHidden);
    AroundOne(gguf + "ffn_down_exps.scale", hf + "router.per_expert_scale", kExperts);
    Random(gguf + "ffn_gate_up_exps.weight", hf + "experts.gate_up_proj",
           {kExperts, 2 * kInner, kHidden}, Fan(kHidden));
    Random(gguf + "ffn_down_exps.weight", hf + "experts.down_proj", {kExperts, kHidden, kInner},
           2.0f * Fan(kInner));
  }

  bool mixture_;
  std::mt19937 random_;
  std::vector<Tensor> tensors_;
};

}  // namespace banyan::testing_support
