// Writes the seeds of the gguf, safetensors and config targets: `make_fuzz_seeds tests/fuzz/seeds`.
// Not part of the build; run it when a format gains a field worth exploring, and commit the result.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"

namespace {

using banyan::testing_support::GgufWriter;
using banyan::testing_support::SafetensorsWriter;
using Shape = std::vector<std::int64_t>;

void WriteText(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

GgufWriter ModelMetadata(const std::string& architecture) {
  GgufWriter writer;
  writer.String("general.architecture", architecture);
  writer.U32(architecture + ".embedding_length", 32);
  writer.U32(architecture + ".block_count", 1);
  writer.U32(architecture + ".attention.head_count", 2);
  writer.U32(architecture + ".attention.head_count_kv", 1);
  writer.U32(architecture + ".feed_forward_length", 32);
  writer.U32(architecture + ".context_length", 128);
  writer.F32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  return writer;
}

void WriteGgufSeeds(const std::filesystem::path& directory) {
  GgufWriter vocabulary(2);
  vocabulary.String("general.architecture", "llama");
  vocabulary.Strings("tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "a", "\xe2\x96\x81"});
  vocabulary.Array<float>("tokenizer.ggml.scores", 6, std::vector<float>{0.0f, -1.0f, -2.0f});
  vocabulary.Array<std::int32_t>("tokenizer.ggml.token_type", 5,
                                 std::vector<std::int32_t>{3, 1, 1});
  vocabulary.Bool("tokenizer.ggml.add_bos_token", true);
  vocabulary.Write(directory / "vocabulary.gguf");

  GgufWriter model = ModelMetadata("llama");
  model.U32("tokenizer.ggml.eos_token_id", 2);
  model.U32("general.alignment", 32);
  const std::vector<float> values(32, 0.5f);
  model.TensorF32("token_embd.weight", Shape{1, 32}, values);
  model.TensorF32("rope_freqs.weight", Shape{8}, std::vector<float>(8, 1.0f));
  model.Tensor("blk.0.attn_q.weight", Shape{2, 32}, 8, std::vector<std::byte>(68));
  model.Tensor("blk.0.ffn_up.weight", Shape{1, 256}, 12, std::vector<std::byte>(144));
  model.Tensor("blk.0.strange", Shape{1, 256}, 99, {});
  model.Write(directory / "model.gguf");

  GgufWriter phi3 = ModelMetadata("phi3");
  phi3.U32("phi3.rope.dimension_count", 4);
  phi3.U32("phi3.attention.sliding_window", 16);
  phi3.Strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  phi3.TensorF32("rope_factors_long.weight", Shape{2}, std::vector<float>{1.0f, 2.0f});
  phi3.TensorF32("rope_factors_short.weight", Shape{2}, std::vector<float>{1.0f, 1.0f});
  phi3.Write(directory / "phi3.gguf");

  GgufWriter nested;
  nested.Scalar<double>("f64", 12, 0.5);
  nested.Scalar<std::int64_t>("i64", 11, -1);
  nested.Raw("nested", 9,
             std::string("\x09\0\0\0\x01\0\0\0\0\0\0\0"
                         "\0\0\0\0\x02\0\0\0\0\0\0\0"
                         "ab",
                         26));
  nested.Write(directory / "nested.gguf");
}

void WriteSafetensorsSeeds(const std::filesystem::path& directory) {
  SafetensorsWriter writer;
  writer.TensorF32("a", Shape{2, 2}, std::vector<float>{1.0f, 2.0f, 3.0f, 4.0f});
  writer.Tensor("b", "BF16", Shape{3}, std::vector<std::byte>(6));
  writer.Tensor("c", "I64", Shape{1}, std::vector<std::byte>(8));
  writer.Tensor("d", "F16", Shape{0, 4}, {});
  writer.Write(directory / "small.safetensors");
  SafetensorsWriter().Write(directory / "empty.safetensors");
}

void WriteConfigSeeds(const std::filesystem::path& directory) {
  const auto config = [](const std::string& family, const std::string& more) {
    return R"({"model_type": ")" + family +
           R"(", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 4,
 "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
 "max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "hidden_act": "silu",
 "bos_token_id": 1, "eos_token_id": [2, 3], "tie_word_embeddings": true, )" +
           more + "}\n";
  };
  WriteText(directory / "llama3.json",
            config("llama", R"("attention_bias": false, "mlp_bias": false, "head_dim": 16,
 "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
 "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 1024})"));
  WriteText(directory / "qwen2.json",
            config("qwen2", R"("use_sliding_window": true, "sliding_window": 8,
 "max_window_layers": 2, "rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000.0,
 "factor": 4.0, "beta_fast": 32, "beta_slow": 1, "mscale": 0.7, "mscale_all_dim": 1.0,
 "truncate": false, "original_max_position_embeddings": 1024})"));
  WriteText(directory / "qwen3.json",
            config("qwen3", R"("head_dim": 32, "sliding_window": 8, "use_sliding_window": true,
 "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"])"));
  WriteText(directory / "mistral.json", config("mistral", R"("sliding_window": null)"));
  WriteText(directory / "phi3.json",
            config("phi3", R"("partial_rotary_factor": 0.5, "rope_scaling": {"type": "longrope",
 "short_factor": [1, 1, 1, 1], "long_factor": [1, 2, 3, 4]},
 "original_max_position_embeddings": 1024)"));
  WriteText(directory / "olmo2.json", config("olmo2", R"("rope_theta": 500000.0)"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  const std::filesystem::path root = argv[1];
  for (const char* name : {"gguf", "safetensors", "config"}) {
    std::filesystem::create_directories(root / name);
  }
  WriteGgufSeeds(root / "gguf");
  WriteSafetensorsSeeds(root / "safetensors");
  WriteConfigSeeds(root / "config");
  return 0;
}
