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
  // llama, mistral, qwen2, qwen3, phi3, olmo2, olmo3, gemma3_text, smollm3, granite,
  // granitemoehybrid (in Hugging Face's form alone), ministral3, qwen3_moe, gpt_oss
  std::string family = "llama";
  int vocab = 200;
  int hidden = 48;
  int layers = 2;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 12;
  int ffn = 80;
  int context = 4096;
  int window = 0;   // mistral and phi3; olmo3 and gemma3_text need one
  int pattern = 2;  // gemma3_text: every such layer sees all keys
  double theta = 10000.0;
  bool tied = false;
  std::uint32_t seed = 1;
};

// A tensor under the names of both formats.
// A tensor without a name in one of the formats is not in files of it.
struct TinyTensor {
  std::string gguf_name, hf_name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  bool interleaved_in_gguf = false;  // rows of Q and K, where the family's files do that
  bool minus_one_in_hf = false;      // norms
};

// Of families with experts.
inline constexpr int kTinyExperts = 6, kTinyChosen = 2;
inline int TinyInner(const TinyShape& shape) {
  return shape.family == "gpt_oss" ? shape.ffn : shape.ffn / 2;
}

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
    tensors_.push_back({std::move(gguf), std::move(hf), std::move(shape), {}, false, false});
    tensors_.back().values.resize(static_cast<size_t>(size));
    return tensors_.back();
  }

  TinyTensor& Matrix(std::string gguf, std::string hf, std::int64_t rows, std::int64_t columns,
                     float scale) {
    TinyTensor& tensor = Add(std::move(gguf), std::move(hf), {rows, columns});
    for (float& value : tensor.values) value = scale * Normal();
    return tensor;
  }

  // Values that lose nothing when one is taken from them, as Gemma's files have it.
  void Norm(std::string gguf, std::string hf, std::int64_t size) {
    const bool minus_one = shape_.family == "gemma3_text";
    TinyTensor& tensor = Add(std::move(gguf), std::move(hf), {size});
    tensor.minus_one_in_hf = minus_one;
    for (float& value : tensor.values) {
      value = 1.0f + 0.1f * Normal();
      if (minus_one) value = std::round(value * 4096.0f) / 4096.0f;
    }
  }

  void Bias(std::string gguf, std::string hf, std::int64_t size) {
    for (float& value : Add(std::move(gguf), std::move(hf), {size}).values) value = 0.3f * Normal();
  }

  // Half of what the others have: their shares of a mixture are small enough as it is.
  std::vector<float> ExpertValues(std::int64_t rows, std::int64_t columns) {
    std::vector<float> values(static_cast<size_t>(rows * columns));
    for (float& value : values) value = 2.0f * Fan(columns) * Normal();
    return values;
  }

  // The stacked tensors of GGUF, and Hugging Face's: one by one, or in pairs and transposed.
  void AddExperts(const std::string& gguf, const std::string& hf) {
    const bool pairs = shape_.family == "gpt_oss";
    const std::int64_t hidden = shape_.hidden, inner = TinyInner(shape_), count = kTinyExperts;
    Matrix(gguf + "ffn_gate_inp.weight", hf + (pairs ? "mlp.router.weight" : "mlp.gate.weight"),
           count, hidden, Fan(hidden));
    std::vector<float> gate, up, down, gate_up_pairs, down_turned;
    for (std::int64_t e = 0; e < count; ++e) {
      const std::vector<float> g = ExpertValues(inner, hidden), u = ExpertValues(inner, hidden);
      const std::vector<float> d = ExpertValues(hidden, inner);
      gate.insert(gate.end(), g.begin(), g.end());
      up.insert(up.end(), u.begin(), u.end());
      down.insert(down.end(), d.begin(), d.end());
      for (std::int64_t c = 0; c < hidden; ++c) {
        for (std::int64_t i = 0; i < inner; ++i) {
          gate_up_pairs.push_back(g[static_cast<size_t>(i * hidden + c)]);
          gate_up_pairs.push_back(u[static_cast<size_t>(i * hidden + c)]);
        }
      }
      for (std::int64_t i = 0; i < inner; ++i) {
        for (std::int64_t c = 0; c < hidden; ++c) {
          down_turned.push_back(d[static_cast<size_t>(c * inner + i)]);
        }
      }
      if (pairs) continue;
      const std::string expert = hf + "mlp.experts." + std::to_string(e) + ".";
      Add("", expert + "gate_proj.weight", {inner, hidden}).values = g;
      Add("", expert + "up_proj.weight", {inner, hidden}).values = u;
      Add("", expert + "down_proj.weight", {hidden, inner}).values = d;
    }
    Add(gguf + "ffn_gate_exps.weight", "", {count, inner, hidden}).values = gate;
    Add(gguf + "ffn_up_exps.weight", "", {count, inner, hidden}).values = up;
    Add(gguf + "ffn_down_exps.weight", "", {count, hidden, inner}).values = down;
    if (!pairs) return;
    Add("", hf + "mlp.experts.gate_up_proj", {count, hidden, 2 * inner}).values = gate_up_pairs;
    Add("", hf + "mlp.experts.down_proj", {count, inner, hidden}).values = down_turned;
    AddExpertBiases(gguf, hf, count, inner);
  }

  void AddExpertBiases(const std::string& gguf, const std::string& hf, std::int64_t count,
                       std::int64_t inner) {
    Bias(gguf + "ffn_gate_inp.bias", hf + "mlp.router.bias", count);
    std::vector<float> gate, up, both;
    for (std::int64_t i = 0; i < count * inner; ++i) {
      gate.push_back(0.3f * Normal());
      up.push_back(0.3f * Normal());
      both.push_back(gate.back());
      both.push_back(up.back());
    }
    Add(gguf + "ffn_gate_exps.bias", "", {count, inner}).values = gate;
    Add(gguf + "ffn_up_exps.bias", "", {count, inner}).values = up;
    Add("", hf + "mlp.experts.gate_up_proj_bias", {count, 2 * inner}).values = both;
    TinyTensor& down = Add(gguf + "ffn_down_exps.bias", hf + "mlp.experts.down_proj_bias",
                           {count, std::int64_t{shape_.hidden}});
    for (float& value : down.values) value = 0.3f * Normal();
  }

  void AddLayer(int layer) {
    const std::string gguf = "blk." + std::to_string(layer) + ".";
    const std::string hf = "model.layers." + std::to_string(layer) + ".";
    const std::int64_t hidden = shape_.hidden;
    const std::int64_t query = std::int64_t{shape_.heads} * shape_.head_dim;
    const std::int64_t key = std::int64_t{shape_.kv_heads} * shape_.head_dim;
    const std::string& family = shape_.family;
    const bool interleaved = family == "llama" || family == "mistral" || family == "smollm3" ||
                             family == "granite" || family == "ministral3";
    const bool norm_after = family == "olmo2" || family == "olmo3";
    const bool gemma = family == "gemma3_text";
    if (gemma) {
      Norm(gguf + "attn_norm.weight", hf + "input_layernorm.weight", hidden);
      Norm(gguf + "post_attention_norm.weight", hf + "post_attention_layernorm.weight", hidden);
      Norm(gguf + "ffn_norm.weight", hf + "pre_feedforward_layernorm.weight", hidden);
      Norm(gguf + "post_ffw_norm.weight", hf + "post_feedforward_layernorm.weight", hidden);
    } else if (norm_after) {
      Norm(gguf + "post_attention_norm.weight", hf + "post_attention_layernorm.weight", hidden);
      Norm(gguf + "post_ffw_norm.weight", hf + "post_feedforward_layernorm.weight", hidden);
    } else {
      const char* before_ffn =
          family == "gpt_oss" ? "post_attention_norm.weight" : "ffn_norm.weight";
      Norm(gguf + "attn_norm.weight", hf + "input_layernorm.weight", hidden);
      Norm(gguf + before_ffn, hf + "post_attention_layernorm.weight", hidden);
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
    if (family == "gpt_oss") {
      Bias(gguf + "attn_output.bias", hf + "self_attn.o_proj.bias", hidden);
      Bias(gguf + "attn_sinks.weight", hf + "self_attn.sinks", shape_.heads);
    }
    if (family == "qwen2" || family == "gpt_oss") {
      Bias(gguf + "attn_q.bias", hf + "self_attn.q_proj.bias", query);
      Bias(gguf + "attn_k.bias", hf + "self_attn.k_proj.bias", key);
      Bias(gguf + "attn_v.bias", hf + "self_attn.v_proj.bias", key);
    }
    if (family == "qwen3" || family == "qwen3_moe" || gemma || norm_after) {
      Norm(gguf + "attn_q_norm.weight", hf + "self_attn.q_norm.weight",
           norm_after ? query : shape_.head_dim);
      Norm(gguf + "attn_k_norm.weight", hf + "self_attn.k_norm.weight",
           norm_after ? key : shape_.head_dim);
    }
    Matrix(gguf + "attn_output.weight", hf + "self_attn.o_proj.weight", hidden, query,
           2.0f * Fan(query));
    // The first layer of qwen3_moe is a dense one.
    if (family == "gpt_oss" || (family == "qwen3_moe" && layer > 0)) {
      return AddExperts(gguf, hf);
    }
    const bool shared = family == "granitemoehybrid";
    if (family == "phi3" || shared) {
      const char* name = shared ? "shared_mlp.input_linear.weight" : "mlp.gate_up_proj.weight";
      Matrix(gguf + "ffn_up.weight", hf + name, 2 * shape_.ffn, hidden, Fan(hidden));
    } else {
      Matrix(gguf + "ffn_gate.weight", hf + "mlp.gate_proj.weight", shape_.ffn, hidden,
             Fan(hidden));
      Matrix(gguf + "ffn_up.weight", hf + "mlp.up_proj.weight", shape_.ffn, hidden, Fan(hidden));
    }
    Matrix(gguf + "ffn_down.weight",
           hf + (shared ? "shared_mlp.output_linear.weight" : "mlp.down_proj.weight"), hidden,
           shape_.ffn, 2.0f * Fan(shape_.ffn));
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

// Settings that only some families read.
inline constexpr double kTinyScales[] = {3.0, 0.2, 0.5,
                                         2.0};           // embedding, attention, residual, logits
inline constexpr double kTinyYarn[] = {4.0, 64.0, 0.1};  // factor, original context, query beta

inline std::string TinyField(const char* key, const std::string& value) {
  return "\"" + std::string(key) + "\":" + value + ",";
}

inline std::string TinyFamilyFields(const TinyShape& shape) {
  const auto number = [](double value) { return std::to_string(value); };
  std::string text;
  if (shape.family == "gemma3_text") {
    text += TinyField("query_pre_attn_scalar", std::to_string(shape.head_dim));
    text += TinyField("sliding_window_pattern", std::to_string(shape.pattern));
  }
  if (shape.family == "granite" || shape.family == "granitemoehybrid") {
    text += TinyField("embedding_multiplier", number(kTinyScales[0]));
    text += TinyField("attention_multiplier", number(kTinyScales[1]));
    text += TinyField("residual_multiplier", number(kTinyScales[2]));
    text += TinyField("logits_scaling", number(kTinyScales[3]));
  }
  if (shape.family == "granitemoehybrid") {
    std::string types;
    for (int i = 0; i < shape.layers; ++i)
      types += types.empty() ? "\"attention\"" : ",\"attention\"";
    text += TinyField("layer_types", "[" + types + "]") + TinyField("num_local_experts", "0");
    text += TinyField("position_embedding_type", "\"rope\"");
    text += TinyField("shared_intermediate_size", std::to_string(shape.ffn));
  }
  if (shape.family == "qwen3_moe" || shape.family == "gpt_oss") {
    text += TinyField("num_experts_per_tok", std::to_string(kTinyChosen));
    text += TinyField("num_local_experts", std::to_string(kTinyExperts));
  }
  if (shape.family == "qwen3_moe") {
    text += TinyField("moe_intermediate_size", std::to_string(TinyInner(shape)));
    text += TinyField("norm_topk_prob", "true") + TinyField("mlp_only_layers", "[0]");
  }
  if (shape.family == "ministral3") {
    text += "\"rope_parameters\":{" + TinyField("rope_type", "\"yarn\"") +
            TinyField("factor", number(kTinyYarn[0])) +
            TinyField("original_max_position_embeddings", number(kTinyYarn[1])) +
            TinyField("mscale", "1.0") + TinyField("mscale_all_dim", "1.0") +
            TinyField("llama_4_scaling_beta", number(kTinyYarn[2])) +
            "\"rope_theta\":" + number(shape.theta) + "},";
  }
  return text;
}

inline std::string TinyConfigJson(const TinyShape& shape) {
  const auto field = TinyField;
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
         field("rms_norm_eps", "1e-5") + field("eos_token_id", "null") + TinyFamilyFields(shape) +
         "\"rope_theta\":" + std::to_string(shape.theta) + "}";
}

// config.json and model.safetensors in `directory`, which is made.
inline std::filesystem::path WriteTinyHuggingFace(const TinyShape& shape,
                                                  const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "config.json") << TinyConfigJson(shape);
  SafetensorsWriter writer;
  const TinyWeights weights(shape);
  for (const TinyTensor& tensor : weights.tensors()) {
    if (tensor.hf_name.empty()) continue;
    std::vector<float> values = tensor.values;
    for (float& value : values) value -= tensor.minus_one_in_hf ? 1.0f : 0.0f;
    writer.TensorF32(tensor.hf_name, tensor.shape, values);
  }
  writer.Write(directory / "model.safetensors");
  return directory;
}

// What a GGUF file of this shape says before its tensors.
inline std::string TinyArchitecture(const TinyShape& shape) {
  if (shape.family == "gemma3_text") return "gemma3";
  if (shape.family == "olmo3") return "olmo2";
  if (shape.family == "ministral3") return "mistral3";
  if (shape.family == "qwen3_moe") return "qwen3moe";
  if (shape.family == "gpt_oss") return "gpt-oss";
  return shape.family;
}

inline GgufWriter TinyGgufHeader(const TinyShape& shape) {
  const auto number = [](int value) { return static_cast<std::uint32_t>(value); };
  const std::string architecture = TinyArchitecture(shape);
  const std::string prefix = architecture + ".";
  GgufWriter writer;
  writer.String("general.architecture", architecture);
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
  writer.F32(prefix + "rope.freq_base", static_cast<float>(shape.theta));
  if (shape.window > 0) writer.U32(prefix + "attention.sliding_window", number(shape.window));
  if (shape.family == "gemma3_text") {
    writer.U32(prefix + "attention.sliding_window_pattern", number(shape.pattern));
  }
  if (shape.family == "granite") {
    writer.F32(prefix + "embedding_scale", static_cast<float>(kTinyScales[0]));
    writer.F32(prefix + "attention.scale", static_cast<float>(kTinyScales[1]));
    writer.F32(prefix + "residual_scale", static_cast<float>(kTinyScales[2]));
    writer.F32(prefix + "logit_scale", static_cast<float>(kTinyScales[3]));
  }
  if (shape.family == "qwen3_moe" || shape.family == "gpt_oss") {
    writer.U32(prefix + "expert_count", number(kTinyExperts));
    writer.U32(prefix + "expert_used_count", number(kTinyChosen));
    writer.U32(prefix + "expert_feed_forward_length", number(TinyInner(shape)));
  }
  if (shape.family == "gpt_oss") {  // as Transformers' default is
    writer.String(prefix + "rope.scaling.type", "yarn");
    writer.F32(prefix + "rope.scaling.factor", 32.0f);
    writer.U32(prefix + "rope.scaling.original_context_length", 4096);
  }
  if (shape.family == "ministral3") {
    writer.String(prefix + "rope.scaling.type", "yarn");
    writer.F32(prefix + "rope.scaling.factor", static_cast<float>(kTinyYarn[0]));
    writer.U32(prefix + "rope.scaling.original_context_length",
               static_cast<std::uint32_t>(kTinyYarn[1]));
    writer.F32(prefix + "rope.scaling.yarn_log_multiplier", 1.0f);
    writer.F32(prefix + "attention.temperature_scale", static_cast<float>(kTinyYarn[2]));
  }
  return writer;
}

inline void AddTinyTensors(const TinyShape& shape, GgufWriter& writer) {
  const TinyWeights weights(shape);
  for (const TinyTensor& tensor : weights.tensors()) {
    if (tensor.gguf_name.empty()) continue;
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
