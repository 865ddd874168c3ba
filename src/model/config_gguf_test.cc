#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "model/config.h"
#include "support/error_message.h"
#include "support/gguf_writer.h"
#include "support/oracle_folders.h"

namespace banyan {
namespace {

std::vector<int> GgufWindows(const ModelConfig& config) {
  std::vector<int> windows;
  for (const LayerAttention& layer : config.attention) windows.push_back(layer.window);
  return windows;
}

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::ErrorMessage;
using testing_support::GgufWriter;

GgufWriter Minimal(const std::string& architecture) {
  GgufWriter writer;
  writer.String("general.architecture", architecture);
  writer.U32(architecture + ".embedding_length", 64);
  writer.U32(architecture + ".block_count", 2);
  writer.U32(architecture + ".attention.head_count", 4);
  writer.U32(architecture + ".feed_forward_length", 128);
  writer.U32(architecture + ".context_length", 4096);
  writer.F32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  writer.Strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "c", "d"});
  return writer;
}

ModelConfig Read(const GgufWriter& writer) {
  const std::string bytes = writer.Bytes();
  return ConfigFromGguf(GgufFile(std::as_bytes(std::span(bytes)), "x.gguf"));
}

std::string MessageAbout(ErrorKind kind, const GgufWriter& writer) {
  return ErrorMessage(kind, [&] { Read(writer); });
}

void AddVector(GgufWriter& writer, const char* name, std::vector<float> values) {
  writer.TensorF32(name, std::vector<std::int64_t>{static_cast<std::int64_t>(values.size())},
                   values);
}

TEST(ConfigGguf, Defaults) {
  const ModelConfig config = Read(Minimal("llama"));
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.vocab_size, 4);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.ropes[0].rotary_dim, 16);
  EXPECT_EQ(config.ropes[0].theta, 10000.0);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_TRUE(config.interleaved_qk_rows);
  EXPECT_FALSE(Read(Minimal("qwen2")).interleaved_qk_rows);
  EXPECT_THAT(GgufWindows(config), ElementsAre(0, 0));
}

// A file that declares fewer blocks than it has would answer with layers left out.
TEST(ConfigGguf, NamesABlockThatIsNotDeclared) {
  GgufWriter writer = Minimal("llama");
  AddVector(writer, "blk.1.attn_q.bias", {1});
  EXPECT_EQ(Read(writer).layers, 2);
  AddVector(writer, "blk.2.attn_q.bias", {1});
  EXPECT_THAT(MessageAbout(ErrorKind::kFormat, writer),
              HasSubstr("x.gguf: llama.block_count is 2: expected no tensor of block 2, found "
                        "'blk.2.attn_q.bias'"));
}

TEST(ConfigGguf, KeysAndTensors) {
  GgufWriter writer = Minimal("llama");
  writer.U32("llama.attention.head_count_kv", 2);
  writer.U32("llama.attention.key_length", 32);
  writer.U32("llama.attention.value_length", 32);
  writer.U32("llama.rope.dimension_count", 8);
  writer.F32("llama.rope.freq_base", 500000.0f);
  writer.U32("llama.attention.sliding_window", 100);
  writer.U32("tokenizer.ggml.bos_token_id", 1);
  writer.U32("tokenizer.ggml.eos_token_id", 2);
  writer.U32("tokenizer.ggml.eot_token_id", 3);
  AddVector(writer, "rope_freqs.weight", {1, 1, 4, 8});
  AddVector(writer, "output.weight", {1});
  AddVector(writer, "blk.0.attn_q.bias", {1});
  writer.TensorF32("token_embd.weight", std::vector<std::int64_t>{6, 1}, std::vector<float>(6));
  const ModelConfig config = Read(writer);
  EXPECT_EQ(config.vocab_size, 6);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 32);
  EXPECT_EQ(config.ropes[0].rotary_dim, 8);
  EXPECT_EQ(config.ropes[0].theta, 500000.0);
  EXPECT_THAT(config.ropes[0].frequency_divisors, ElementsAre(1, 1, 4, 8));
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_FALSE(config.output_bias);
  EXPECT_THAT(GgufWindows(config), Each(100));
  EXPECT_EQ(config.bos, 1);
  EXPECT_THAT(config.eos, ElementsAre(2, 3));
}

TEST(ConfigGguf, Scaling) {
  GgufWriter linear = Minimal("llama");
  linear.String("llama.rope.scaling.type", "linear");
  linear.F32("llama.rope.scaling.factor", 4.0f);
  EXPECT_EQ(Read(linear).ropes[0].kind, RopeKind::kLinear);
  EXPECT_EQ(Read(linear).ropes[0].factor, 4.0);

  GgufWriter yarn = Minimal("qwen2");
  yarn.String("qwen2.rope.scaling.type", "yarn");
  yarn.F32("qwen2.rope.scaling.factor", 4.0f);
  yarn.U32("qwen2.rope.scaling.original_context_length", 1024);
  EXPECT_EQ(Read(yarn).ropes[0].kind, RopeKind::kYarn);
  EXPECT_EQ(Read(yarn).ropes[0].original_context, 1024);

  GgufWriter phi3 = Minimal("phi3");
  phi3.U32("phi3.rope.dimension_count", 4);
  phi3.U32("phi3.rope.scaling.original_context_length", 1024);
  phi3.F32("phi3.rope.scaling.attn_factor", 1.25f);
  AddVector(phi3, "rope_factors_long.weight", {2, 3});
  AddVector(phi3, "rope_factors_short.weight", {1, 1});
  const RopeConfig rope = Read(phi3).ropes[0];
  EXPECT_EQ(rope.kind, RopeKind::kLongRope);
  EXPECT_THAT(rope.long_factor, ElementsAre(2, 3));
  EXPECT_EQ(rope.attention_factor, 1.25);
  EXPECT_EQ(rope.factor, 4.0);
}

TEST(ConfigGguf, OneNumberPerLayer) {
  GgufWriter alike = Minimal("llama");
  alike.Array<std::uint32_t>("llama.attention.head_count_kv", 4, std::vector<std::uint32_t>{2, 2});
  EXPECT_EQ(Read(alike).kv_heads, 2);
  GgufWriter different = Minimal("llama");
  different.Array<std::uint32_t>("llama.attention.head_count_kv", 4,
                                 std::vector<std::uint32_t>{2, 1});
  EXPECT_THAT(MessageAbout(ErrorKind::kUnsupported, different),
              HasSubstr("differs between layers"));
}

TEST(ConfigGguf, Refusals) {
  EXPECT_THAT(MessageAbout(ErrorKind::kUnsupported, Minimal("mamba")),
              HasSubstr("x.gguf: architecture 'mamba': not supported; supported: llama"));
  // Read from safetensors alone.
  EXPECT_THAT(MessageAbout(ErrorKind::kUnsupported, Minimal("qwen99")),
              testing::AllOf(HasSubstr("Qwen3.5"), testing::Not(HasSubstr("gemma4_unified"))));
  EXPECT_THAT(MessageAbout(ErrorKind::kFormat, GgufWriter()),
              HasSubstr("key 'general.architecture' is missing"));
  GgufWriter bare;
  bare.String("general.architecture", "llama");
  EXPECT_THAT(MessageAbout(ErrorKind::kFormat, bare),
              HasSubstr("'llama.embedding_length' is missing"));
  GgufWriter experts = Minimal("llama");
  experts.U32("llama.expert_count", 8);
  EXPECT_THAT(MessageAbout(ErrorKind::kUnsupported, experts), HasSubstr("mixture of experts"));
  GgufWriter values = Minimal("llama");
  values.U32("llama.attention.value_length", 8);
  EXPECT_THAT(MessageAbout(ErrorKind::kUnsupported, values),
              HasSubstr("keys of 16 and values of 8"));
  GgufWriter divisors = Minimal("llama");
  AddVector(divisors, "rope_freqs.weight", {1, 2});
  EXPECT_THAT(MessageAbout(ErrorKind::kFormat, divisors),
              HasSubstr("expected shape [8], found [2]"));
  GgufWriter window = Minimal("qwen2");
  window.U32("qwen2.attention.sliding_window", 64);
  EXPECT_THAT(MessageAbout(ErrorKind::kUnsupported, window), HasSubstr("a sliding window of 64"));
  GgufWriter huge = Minimal("llama");
  huge.U64("llama.attention.head_count_kv", ~0ull);
  EXPECT_THAT(MessageAbout(ErrorKind::kFormat, huge), HasSubstr("expected a 31-bit number"));
}

TEST(ConfigGguf, OracleModels) {
  for (const std::filesystem::path& path : testing_support::OraclesOf("gguf", ".gguf")) {
    const GgufFile file(path);
    const ModelConfig config = ConfigFromGguf(file);
    file.tensors().Get("token_embd.weight", {config.vocab_size, config.hidden_size});
    EXPECT_EQ(config.interleaved_qk_rows, config.family == "llama");
  }
}

}  // namespace
}  // namespace banyan
