// Tiny random encoders for tests, the same weights as a Hugging Face directory and as a GGUF file.
// The numbers are the same on every platform.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"

namespace banyan::testing_support {

// A tokenizer of letters: [CLS] l e t ##t … [SEP], 56 tokens, lower case. Writes tokenizer.json
// beside a model's other files.
inline void WriteLetterTokenizer(const std::filesystem::path& directory) {
  std::string vocab = R"("[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3)";
  int next = 4;
  for (const char* prefix : {"", "##"}) {
    for (char letter = 'a'; letter <= 'z'; ++letter) {
      vocab += ",\"" + std::string(prefix) + letter + "\":" + std::to_string(next++);
    }
  }
  std::string added;
  int id = 0;
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]"}) {
    added += std::string(added.empty() ? "" : ",") + "{\"id\":" + std::to_string(id++) +
             ",\"content\":\"" + token +
             "\",\"special\":true,\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
             "\"normalized\":false}";
  }
  std::ofstream(directory / "tokenizer.json")
      << "{\"version\":\"1.0\",\"added_tokens\":[" << added
      << R"(],"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,)"
      << R"("strip_accents":null,"lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},)"
      << R"("post_processor":{"type":"TemplateProcessing","single":[)"
      << R"({"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},)"
      << R"({"SpecialToken":{"id":"[SEP]","type_id":0}}],"pair":[],"special_tokens":{)"
      << R"("[CLS]":{"id":"[CLS]","ids":[2],"tokens":["[CLS]"]},)"
      << R"("[SEP]":{"id":"[SEP]","ids":[3],"tokens":["[SEP]"]}}},)"
      << R"("decoder":{"type":"WordPiece","prefix":"##","cleanup":true},)"
      << R"("model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",)"
      << R"("max_input_chars_per_word":100,"vocab":{)" << vocab << "}}}";
}

struct TinyEncoderShape {
  std::string family = "bert";  // bert, xlm-roberta
  int vocab = 90;
  int hidden = 48;
  int layers = 2;
  int heads = 4;
  int ffn = 80;
  int context = 300;
  bool reranker = false;    // xlm-roberta
  bool more_heads = false;  // sparse and multi-vector
  std::uint32_t seed = 1;

  int first_position() const { return family == "bert" ? 0 : 2; }
  int types() const { return family == "bert" ? 2 : 1; }
};

// Under the names of both formats; GGUF leaves out dimensions of 1 and unused positions.
struct TinyEncoderTensor {
  std::string hf_name, gguf_name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

class TinyEncoderWeights {
 public:
  explicit TinyEncoderWeights(const TinyEncoderShape& shape) : random_(shape.seed) {
    const std::int64_t hidden = shape.hidden;
    Add("embeddings.word_embeddings.weight", "token_embd.weight", {shape.vocab, hidden}, 1.0);
    Add("embeddings.position_embeddings.weight", "position_embd.weight",
        {shape.context + shape.first_position(), hidden}, 1.0);
    Add("embeddings.token_type_embeddings.weight", "token_types.weight", {shape.types(), hidden},
        0.5);
    Norm("embeddings.LayerNorm", "token_embd_norm", hidden);
    for (int layer = 0; layer < shape.layers; ++layer) {
      const std::string hf = "encoder.layer." + std::to_string(layer) + ".";
      const std::string gguf = "blk." + std::to_string(layer) + ".";
      Linear(hf + "attention.self.query", gguf + "attn_q", hidden, hidden, 2.0);
      Linear(hf + "attention.self.key", gguf + "attn_k", hidden, hidden, 1.0);
      Linear(hf + "attention.self.value", gguf + "attn_v", hidden, hidden, 1.0);
      Linear(hf + "attention.output.dense", gguf + "attn_output", hidden, hidden, 2.0);
      Norm(hf + "attention.output.LayerNorm", gguf + "attn_output_norm", hidden);
      Linear(hf + "intermediate.dense", gguf + "ffn_up", shape.ffn, hidden, 1.0);
      Linear(hf + "output.dense", gguf + "ffn_down", hidden, shape.ffn, 2.0);
      Norm(hf + "output.LayerNorm", gguf + "layer_output_norm", hidden);
    }
    if (shape.reranker) {
      Linear("classifier.dense", "cls", hidden, hidden, 1.0);
      Linear("classifier.out_proj", "cls.output", 1, hidden, 1.0);
    }
    if (shape.more_heads) {
      Linear("sparse_linear", "", 1, hidden, 1.0);
      Linear("colbert_linear", "", 24, hidden, 1.0);
    }
  }

  const std::vector<TinyEncoderTensor>& tensors() const { return tensors_; }
  const std::vector<float>& Get(const std::string& hf_name) const {
    return tensors_[places_.at(hf_name)].values;
  }

 private:
  // About normal with variance 1: sums of uniforms, since library distributions differ.
  double Normal() {
    double sum = -2.0;
    for (int i = 0; i < 4; ++i) sum += random_() * 0x1p-32;
    return sum * std::sqrt(3.0);
  }

  void Add(const std::string& hf, const std::string& gguf, std::vector<std::int64_t> shape,
           double scale, double middle = 0.0) {
    std::int64_t size = 1;
    for (const std::int64_t extent : shape) size *= extent;
    places_[hf] = tensors_.size();
    tensors_.push_back({hf, gguf, std::move(shape), {}});
    for (std::int64_t i = 0; i < size; ++i) {
      tensors_.back().values.push_back(static_cast<float>(middle + scale * Normal()));
    }
  }

  void Linear(const std::string& hf, const std::string& gguf, std::int64_t outputs,
              std::int64_t inputs, double scale) {
    Add(hf + ".weight", gguf + ".weight", {outputs, inputs},
        scale / std::sqrt(static_cast<double>(inputs)));
    Add(hf + ".bias", gguf + ".bias", {outputs}, 0.3);
  }

  void Norm(const std::string& hf, const std::string& gguf, std::int64_t size) {
    Add(hf + ".weight", gguf + ".weight", {size}, 0.1, 1.0);
    Add(hf + ".bias", gguf + ".bias", {size}, 0.2);
  }

  std::mt19937 random_;
  std::vector<TinyEncoderTensor> tensors_;
  std::map<std::string, size_t> places_;
};

inline std::string TinyEncoderConfigJson(const TinyEncoderShape& shape) {
  const bool bert = shape.family == "bert";
  const std::string name = bert ? "Bert" : "XLMRoberta";
  const auto field = [](const char* key, int value) {
    return "\"" + std::string(key) + "\":" + std::to_string(value) + ",";
  };
  return "{\"architectures\":[\"" + name +
         (shape.reranker ? "ForSequenceClassification" : "Model") + "\"],\"model_type\":\"" +
         shape.family + "\"," + field("vocab_size", shape.vocab) +
         field("hidden_size", shape.hidden) + field("num_hidden_layers", shape.layers) +
         field("num_attention_heads", shape.heads) + field("intermediate_size", shape.ffn) +
         field("max_position_embeddings", shape.context + shape.first_position()) +
         field("pad_token_id", bert ? 0 : 1) + field("type_vocab_size", shape.types()) +
         (bert ? "" : field("bos_token_id", 0) + field("eos_token_id", 2)) +
         "\"hidden_act\":\"gelu\",\"layer_norm_eps\":1e-5}";
}

// config.json, model.safetensors and, with more heads, heads.safetensors in `directory`.
inline std::filesystem::path WriteTinyEncoder(const TinyEncoderShape& shape,
                                              const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "config.json") << TinyEncoderConfigJson(shape);
  SafetensorsWriter network, heads;
  const TinyEncoderWeights weights(shape);
  for (const TinyEncoderTensor& tensor : weights.tensors()) {
    const bool inside = shape.reranker && !tensor.hf_name.starts_with("classifier");
    const bool head = tensor.hf_name.find("_linear.") != std::string::npos;
    (head ? heads : network)
        .TensorF32((inside ? "roberta." : "") + tensor.hf_name, tensor.shape, tensor.values);
  }
  network.Write(directory / "model.safetensors");
  if (shape.more_heads) heads.Write(directory / "heads.safetensors");
  return directory;
}

// REQUIRES: no more heads, for which these files have no names.
inline std::filesystem::path WriteTinyEncoderGguf(const TinyEncoderShape& shape,
                                                  const std::filesystem::path& file) {
  const auto number = [](int value) { return static_cast<std::uint32_t>(value); };
  GgufWriter writer;
  writer.String("general.architecture", "bert");
  if (shape.family != "bert") writer.String("tokenizer.ggml.model", "t5");
  writer.U32("bert.context_length", number(shape.context));
  writer.U32("bert.embedding_length", number(shape.hidden));
  writer.U32("bert.block_count", number(shape.layers));
  writer.U32("bert.feed_forward_length", number(shape.ffn));
  writer.U32("bert.attention.head_count", number(shape.heads));
  writer.F32("bert.attention.layer_norm_epsilon", 1e-5f);
  writer.Bool("bert.attention.causal", false);
  const TinyEncoderWeights weights(shape);
  for (TinyEncoderTensor tensor : weights.tensors()) {
    if (tensor.gguf_name == "position_embd.weight") {
      const int unused = shape.first_position();
      tensor.shape[0] -= unused;
      tensor.values.erase(tensor.values.begin(), tensor.values.begin() + unused * shape.hidden);
    }
    if (tensor.shape.size() == 2 && tensor.shape[0] == 1) tensor.shape.erase(tensor.shape.begin());
    writer.TensorF32(tensor.gguf_name, tensor.shape, tensor.values);
  }
  writer.Write(file);
  return file;
}

}  // namespace banyan::testing_support
