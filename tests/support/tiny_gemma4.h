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
#include "support/stored_blocks.h"

namespace banyan::testing_support {

class TinyGemma4 {
 public:
  static constexpr int kVocab = 120, kLayers = 7, kContext = 2048;

  // `wide`: most rows of matrices are whole blocks of 256 values.
  explicit TinyGemma4(bool mixture, bool wide = false)
      : mixture_(mixture),
        hidden_(wide ? 256 : 48),
        dim_(wide ? 64 : 12),
        full_dim_(wide ? 64 : 16),
        ffn_(wide ? 512 : 80),
        input_(wide ? 32 : 8),
        inner_(wide ? 96 : 24),
        random_(mixture ? 11 : 7) {
    Matrix("token_embd", "embed_tokens", kVocab, hidden_, 1.0f);
    Norm("output_norm", "norm", hidden_);
    if (!mixture) {
      const int all = kLayers * input_;
      Matrix("per_layer_token_embd", "embed_tokens_per_layer", kVocab, all, 1.0f);
      Matrix("per_layer_model_proj", "per_layer_model_projection", all, hidden_, Fan(hidden_));
      Norm("per_layer_proj_norm", "per_layer_projection_norm", input_);
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
    AddDivisors(writer);
    writer.Write(file);
    return file;
  }

  // Other weights, of about the same size: as quantisers store them or, `values`, as float32.
  std::filesystem::path WriteStoredGguf(const std::filesystem::path& file, const StoredMix& mix,
                                        bool values) const {
    std::mt19937 random(5);
    GgufWriter writer = GgufHeader();
    for (const Tensor& tensor : tensors_) {
      const std::string& name = tensor.gguf_name;
      if (tensor.shape.size() == 1 || name.find("ffn_gate_inp") != std::string::npos) {
        writer.TensorF32(name, tensor.shape, tensor.values);
        continue;
      }
      const bool more =
          name.find("_v.") != std::string::npos || name.find("down") != std::string::npos;
      double sum = 0.0;
      for (const float value : tensor.values) sum += double{value} * value;
      const auto size =
          static_cast<float>(std::sqrt(sum / static_cast<double>(tensor.values.size())));
      const DType type = FittingType(more ? mix.better : mix.usual, tensor.shape.back());
      WriteStored(RandomBlocks(name, tensor.shape, type, size, random), values, writer);
    }
    AddDivisors(writer);
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
    writer.U32(prefix + "embedding_length", number(hidden_));
    writer.U32(prefix + "embedding_length_per_layer_input", number(mixture_ ? 0 : input_));
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
      writer.U32(prefix + "feed_forward_length", number(ffn_));
      writer.Array<std::uint32_t>(prefix + "attention.head_count_kv", 4, kv_heads);
      writer.U32(prefix + "expert_count", kExperts);
      writer.U32(prefix + "expert_used_count", kChosen);
      writer.U32(prefix + "expert_feed_forward_length", number(inner_));
    } else {
      writer.Array<std::uint32_t>(prefix + "feed_forward_length", 4, ffn);
      writer.U32(prefix + "attention.head_count_kv", kKvHeads);
      writer.U32(prefix + "attention.shared_kv_layers", kSharing);
    }
    writer.Array<std::uint8_t>(prefix + "attention.sliding_window_pattern", 7, slides);
    writer.U32(prefix + "attention.sliding_window", kWindow);
    writer.U32(prefix + "attention.key_length", number(full_dim_));
    writer.U32(prefix + "attention.value_length", number(full_dim_));
    writer.U32(prefix + "attention.key_length_swa", number(dim_));
    writer.U32(prefix + "attention.value_length_swa", number(dim_));
    writer.U32(prefix + "rope.dimension_count", number(full_dim_));
    writer.U32(prefix + "rope.dimension_count_swa", number(dim_));
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
    text += field("vocab_size", kVocab) + field("hidden_size", hidden_);
    text += field("num_hidden_layers", kLayers) + field("num_attention_heads", kHeads);
    text += field("num_key_value_heads", kKvHeads) + field("head_dim", dim_);
    text += field("global_head_dim", full_dim_) + field("intermediate_size", ffn_);
    text += field("sliding_window", kWindow) + field("max_position_embeddings", kContext);
    text += field("hidden_size_per_layer_input", mixture_ ? 0 : input_);
    if (mixture_) {
      text += "\"attention_k_eq_v\":true,\"enable_moe_block\":true,";
      text += field("num_global_key_value_heads", 1) + field("num_experts", kExperts);
      text += field("top_k_experts", kChosen) + field("moe_intermediate_size", inner_);
    } else {
      text += field("num_kv_shared_layers", kSharing) + "\"use_double_wide_mlp\":true,";
    }
    text +=
        "\"final_logit_softcapping\":30.0,\"rms_norm_eps\":1e-6,\"eos_"
        "token_id\":null,";
    return text + "\"layer_types\":[" + kinds + "]}";
  }

 private:
  struct Tensor {
    std::string gguf_name, hf_name;
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };

  static constexpr int kHeads = 4, kKvHeads = 2, kSharing = 3, kWindow = 24;
  static constexpr int kExperts = 6, kChosen = 2;

  static bool Slides(int layer) { return layer != 2 && layer != kLayers - 1; }
  bool HasKeys(int layer) const { return mixture_ || layer < kLayers - kSharing; }
  int KvHeads(int layer) const { return mixture_ && !Slides(layer) ? 1 : kKvHeads; }
  int FfnSize(int layer) const { return HasKeys(layer) ? ffn_ : 2 * ffn_; }

  // Of layers without a window; the pairs behind the first quarter do not turn.
  void AddDivisors(GgufWriter& writer) const {
    const int pairs = full_dim_ / 2;
    std::vector<float> divisors(static_cast<size_t>(pairs), 1e30f);
    std::fill_n(divisors.begin(), pairs / 4, 1.0f);
    writer.TensorF32("rope_freqs.weight", std::vector<std::int64_t>{pairs}, divisors);
  }

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
    const int dim = Slides(layer) ? dim_ : full_dim_, ffn = FfnSize(layer);
    const int query = kHeads * dim, key = KvHeads(layer) * dim;
    Norm(gguf + "attn_norm", hf + "input_layernorm", hidden_);
    Norm(gguf + "post_attention_norm", hf + "post_attention_layernorm", hidden_);
    Norm(gguf + "ffn_norm", hf + "pre_feedforward_layernorm", hidden_);
    Norm(gguf + "post_ffw_norm", hf + "post_feedforward_layernorm", hidden_);
    AroundOne(gguf + "layer_output_scale.weight", hf + "layer_scalar", 1);
    Matrix(gguf + "attn_q", hf + "self_attn.q_proj", query, hidden_, 2.0f * Fan(hidden_));
    Norm(gguf + "attn_q_norm", hf + "self_attn.q_norm", dim);
    if (HasKeys(layer)) {
      Matrix(gguf + "attn_k", hf + "self_attn.k_proj", key, hidden_, Fan(hidden_));
      Norm(gguf + "attn_k_norm", hf + "self_attn.k_norm", dim);
      if (!mixture_ || Slides(layer)) {
        Matrix(gguf + "attn_v", hf + "self_attn.v_proj", key, hidden_, Fan(hidden_));
      }
    }
    Matrix(gguf + "attn_output", hf + "self_attn.o_proj", hidden_, query, 2.0f * Fan(query));
    Matrix(gguf + "ffn_gate", hf + "mlp.gate_proj", ffn, hidden_, Fan(hidden_));
    Matrix(gguf + "ffn_up", hf + "mlp.up_proj", ffn, hidden_, Fan(hidden_));
    Matrix(gguf + "ffn_down", hf + "mlp.down_proj", hidden_, ffn, 2.0f * Fan(ffn));
    if (mixture_) {
      AddExperts(gguf, hf);
    } else {
      Matrix(gguf + "inp_gate", hf + "per_layer_input_gate", input_, hidden_, Fan(hidden_));
      Matrix(gguf + "proj", hf + "per_layer_projection", hidden_, input_, 2.0f * Fan(input_));
      Norm(gguf + "post_norm", hf + "post_per_layer_input_norm", hidden_);
    }
  }

  void AddExperts(const std::string& gguf, const std::string& hf) {
    Norm(gguf + "pre_ffw_norm_2", hf + "pre_feedforward_layernorm_2", hidden_);
    Norm(gguf + "post_ffw_norm_1", hf + "post_feedforward_layernorm_1", hidden_);
    Norm(gguf + "post_ffw_norm_2", hf + "post_feedforward_layernorm_2", hidden_);
    Matrix(gguf + "ffn_gate_inp", hf + "router.proj", kExperts, hidden_, Fan(hidden_));
    AroundOne(gguf + "ffn_gate_inp.scale", hf + "router.scale", hidden_);
    AroundOne(gguf + "ffn_down_exps.scale", hf + "router.per_expert_scale", kExperts);
    Random(gguf + "ffn_gate_up_exps.weight", hf + "experts.gate_up_proj",
           {kExperts, 2 * inner_, hidden_}, Fan(hidden_));
    Random(gguf + "ffn_down_exps.weight", hf + "experts.down_proj", {kExperts, hidden_, inner_},
           2.0f * Fan(inner_));
  }

  const bool mixture_;
  const int hidden_, dim_, full_dim_, ffn_, input_, inner_;
  std::mt19937 random_;
  std::vector<Tensor> tensors_;
};

}  // namespace banyan::testing_support
