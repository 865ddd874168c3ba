// Tiny random models for tests, the same weights as a GGUF file and as a Hugging Face directory.
// Weights are scaled as a trained model's would be (unit variance through every block), so that
// greedy margins are of the order of the logits' spread and attention is neither flat nor a single
// key. The numbers are the same on every platform.
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

struct TinyShape {
  std::string family = "llama";  // llama, mistral, qwen2, qwen3, phi3, olmo2
  int vocab = 200;
  int hidden = 48;
  int layers = 2;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 12;
  int ffn = 80;
  int context = 4096;
  int window = 0;  // mistral and phi3
  bool tied = false;
  std::uint32_t seed = 1;
};

// A tensor under the names of both formats.
struct TinyTensor {
  std::string gguf_name, hf_name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  bool interleaved_in_gguf = false;  // rows of Q and K, where the family's files do that
};

class TinyWeights {
 public:
  explicit TinyWeights(const TinyShape& shape) : shape_(shape), random_(shape.seed) {
    const std::int64_t hidden = shape.hidden;
    Matrix("token_embd.weight", "model.embed_tokens.weight", shape.vocab, hidden, 1.0f);
    Norm("output_norm.weight", "model.norm.weight", hidden);
    if (!shape.tied) {
      Matrix("output.weight", "lm_head.weight", shape.vocab, hidden, kLogitSpread * Fan(hidden));
    }
    for (int layer = 0; layer < shape.layers; ++layer) AddLayer(layer);
  }

  const std::vector<TinyTensor>& tensors() const { return tensors_; }

 private:
  static constexpr float kLogitSpread = 2.0f;

  static float Fan(std::int64_t columns) { return 1.0f / std::sqrt(static_cast<float>(columns)); }

  // About normal with variance 1: sums of uniforms, since library distributions differ.
  float Normal() {
    double sum = -2.0;
    for (int i = 0; i < 4; ++i) sum += random_() * 0x1p-32;
    return static_cast<float>(sum * std::sqrt(3.0));
  }

  TinyTensor& Add(std::string gguf, std::string hf, std::vector<std::int64_t> shape) {
    std::int64_t size = 1;
    for (const std::int64_t extent : shape) size *= extent;
    tensors_.push_back({std::move(gguf), std::move(hf), std::move(shape), {}, false});
    tensors_.back().values.resize(static_cast<size_t>(size));
    return tensors_.back();
  }

  TinyTensor& Matrix(std::string gguf, std::string hf, std::int64_t rows, std::int64_t columns,
                     float scale) {
    TinyTensor& tensor = Add(std::move(gguf), std::move(hf), {rows, columns});
    for (float& value : tensor.values) value = scale * Normal();
    return tensor;
  }

  void Norm(std::string gguf, std::string hf, std::int64_t size) {
    for (float& value : Add(std::move(gguf), std::move(hf), {size}).values) {
      value = 1.0f + 0.1f * Normal();
    }
  }

  void Bias(std::string gguf, std::string hf, std::int64_t size) {
    for (float& value : Add(std::move(gguf), std::move(hf), {size}).values) value = 0.3f * Normal();
  }

  void AddLayer(int layer) {
    const std::string gguf = "blk." + std::to_string(layer) + ".";
    const std::string hf = "model.layers." + std::to_string(layer) + ".";
    const std::int64_t hidden = shape_.hidden;
    const std::int64_t query = std::int64_t{shape_.heads} * shape_.head_dim;
    const std::int64_t key = std::int64_t{shape_.kv_heads} * shape_.head_dim;
    const bool interleaved = shape_.family == "llama" || shape_.family == "mistral";
    const bool norm_after = shape_.family == "olmo2";
    if (norm_after) {
      Norm(gguf + "post_attention_norm.weight", hf + "post_attention_layernorm.weight", hidden);
      Norm(gguf + "post_ffw_norm.weight", hf + "post_feedforward_layernorm.weight", hidden);
    } else {
      Norm(gguf + "attn_norm.weight", hf + "input_layernorm.weight", hidden);
      Norm(gguf + "ffn_norm.weight", hf + "post_attention_layernorm.weight", hidden);
    }
    if (shape_.family == "phi3") {
      Matrix(gguf + "attn_qkv.weight", hf + "self_attn.qkv_proj.weight", query + 2 * key, hidden,
             1.5f * Fan(hidden));
    } else {
      Matrix(gguf + "attn_q.weight", hf + "self_attn.q_proj.weight", query, hidden,
             2.0f * Fan(hidden))
          .interleaved_in_gguf = interleaved;
      Matrix(gguf + "attn_k.weight", hf + "self_attn.k_proj.weight", key, hidden, Fan(hidden))
          .interleaved_in_gguf = interleaved;
      Matrix(gguf + "attn_v.weight", hf + "self_attn.v_proj.weight", key, hidden, Fan(hidden));
    }
    if (shape_.family == "qwen2") {
      Bias(gguf + "attn_q.bias", hf + "self_attn.q_proj.bias", query);
      Bias(gguf + "attn_k.bias", hf + "self_attn.k_proj.bias", key);
      Bias(gguf + "attn_v.bias", hf + "self_attn.v_proj.bias", key);
    }
    if (shape_.family == "qwen3" || norm_after) {
      Norm(gguf + "attn_q_norm.weight", hf + "self_attn.q_norm.weight",
           norm_after ? query : shape_.head_dim);
      Norm(gguf + "attn_k_norm.weight", hf + "self_attn.k_norm.weight",
           norm_after ? key : shape_.head_dim);
    }
    Matrix(gguf + "attn_output.weight", hf + "self_attn.o_proj.weight", hidden, query,
           2.0f * Fan(query));
    if (shape_.family == "phi3") {
      Matrix(gguf + "ffn_up.weight", hf + "mlp.gate_up_proj.weight", 2 * shape_.ffn, hidden,
             Fan(hidden));
    } else {
      Matrix(gguf + "ffn_gate.weight", hf + "mlp.gate_proj.weight", shape_.ffn, hidden,
             Fan(hidden));
      Matrix(gguf + "ffn_up.weight", hf + "mlp.up_proj.weight", shape_.ffn, hidden, Fan(hidden));
    }
    Matrix(gguf + "ffn_down.weight", hf + "mlp.down_proj.weight", hidden, shape_.ffn,
           2.0f * Fan(shape_.ffn));
  }

  TinyShape shape_;
  std::mt19937 random_;
  std::vector<TinyTensor> tensors_;
};

// Row 2 i + s of a head is what Hugging Face has as row s * head_dim / 2 + i.
inline std::vector<float> InterleaveRows(const TinyTensor& tensor, int head_dim) {
  const auto columns = static_cast<size_t>(tensor.shape[1]);
  std::vector<float> values(tensor.values.size());
  for (size_t row = 0; row < static_cast<size_t>(tensor.shape[0]); ++row) {
    const auto dim = static_cast<size_t>(head_dim);
    const size_t within = row % dim;
    const size_t source = row - within + within % 2 * (dim / 2) + within / 2;
    for (size_t c = 0; c < columns; ++c) {
      values[row * columns + c] = tensor.values[source * columns + c];
    }
  }
  return values;
}

inline std::string TinyConfigJson(const TinyShape& shape) {
  const auto field = [](const char* key, const std::string& value) {
    return "\"" + std::string(key) + "\":" + value + ",";
  };
  return "{" + field("model_type", "\"" + shape.family + "\"") +
         field("vocab_size", std::to_string(shape.vocab)) +
         field("hidden_size", std::to_string(shape.hidden)) +
         field("num_hidden_layers", std::to_string(shape.layers)) +
         field("num_attention_heads", std::to_string(shape.heads)) +
         field("num_key_value_heads", std::to_string(shape.kv_heads)) +
         field("head_dim", std::to_string(shape.head_dim)) +
         field("intermediate_size", std::to_string(shape.ffn)) +
         field("max_position_embeddings", std::to_string(shape.context)) +
         field("sliding_window", shape.window > 0 ? std::to_string(shape.window) : "null") +
         field("tie_word_embeddings", shape.tied ? "true" : "false") +
         field("rms_norm_eps", "1e-5") + field("eos_token_id", "null") + "\"rope_theta\":10000.0}";
}

// config.json and model.safetensors in `directory`, which is made.
inline std::filesystem::path WriteTinyHuggingFace(const TinyShape& shape,
                                                  const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "config.json") << TinyConfigJson(shape);
  SafetensorsWriter writer;
  const TinyWeights weights(shape);
  for (const TinyTensor& tensor : weights.tensors()) {
    writer.TensorF32(tensor.hf_name, tensor.shape, tensor.values);
  }
  writer.Write(directory / "model.safetensors");
  return directory;
}

// What a GGUF file of this shape says before its tensors.
inline GgufWriter TinyGgufHeader(const TinyShape& shape) {
  const auto number = [](int value) { return static_cast<std::uint32_t>(value); };
  const std::string prefix = shape.family + ".";
  GgufWriter writer;
  writer.String("general.architecture", shape.family);
  writer.U32(prefix + "context_length", number(shape.context));
  writer.U32(prefix + "embedding_length", number(shape.hidden));
  writer.U32(prefix + "block_count", number(shape.layers));
  writer.U32(prefix + "feed_forward_length", number(shape.ffn));
  writer.U32(prefix + "attention.head_count", number(shape.heads));
  writer.U32(prefix + "attention.head_count_kv", number(shape.kv_heads));
  writer.U32(prefix + "attention.key_length", number(shape.head_dim));
  writer.U32(prefix + "attention.value_length", number(shape.head_dim));
  writer.U32(prefix + "rope.dimension_count", number(shape.head_dim));
  writer.F32(prefix + "attention.layer_norm_rms_epsilon", 1e-5f);
  if (shape.window > 0) writer.U32(prefix + "attention.sliding_window", number(shape.window));
  return writer;
}

inline void AddTinyTensors(const TinyShape& shape, GgufWriter& writer) {
  const TinyWeights weights(shape);
  for (const TinyTensor& tensor : weights.tensors()) {
    writer.TensorF32(
        tensor.gguf_name, tensor.shape,
        tensor.interleaved_in_gguf ? InterleaveRows(tensor, shape.head_dim) : tensor.values);
  }
}

inline std::filesystem::path WriteTinyGguf(const TinyShape& shape,
                                           const std::filesystem::path& file) {
  GgufWriter writer = TinyGgufHeader(shape);
  AddTinyTensors(shape, writer);
  writer.Write(file);
  return file;
}

// A byte-level vocabulary: id b < 256 is the byte b, then the given longer spellings (of printable
// ASCII), up to shape.vocab, the rest filled with unused ones. REQUIRES: vocab >= 256 + spellings.
inline void AddByteVocabulary(const TinyShape& shape, const std::vector<std::string>& spellings,
                              GgufWriter& writer) {
  std::vector<std::string> tokens;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int code = itself ? byte : next++;
    if (code < 128) {
      tokens.push_back(std::string(1, static_cast<char>(code)));
    } else {
      tokens.push_back(
          {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))});
    }
  }
  tokens.insert(tokens.end(), spellings.begin(), spellings.end());
  while (static_cast<int>(tokens.size()) < shape.vocab) {
    tokens.push_back("unused" + std::to_string(tokens.size()));
  }
  const std::vector<std::string> merges = {"a b"};
  writer.String("tokenizer.ggml.model", "gpt2");
  writer.String("tokenizer.ggml.pre", "gpt-2");
  writer.Strings("tokenizer.ggml.tokens", tokens);
  writer.Strings("tokenizer.ggml.merges", merges);
}

}  // namespace banyan::testing_support
