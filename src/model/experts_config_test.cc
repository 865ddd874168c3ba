// Experts as config.json and GGUF metadata say, with the meaning that Transformers gives to absent
// keys, and what cannot be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/config.h"
#include "support/error_message.h"
#include "support/gguf_writer.h"

namespace banyan {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::ErrorMessage;
using testing_support::GgufWriter;

std::string Text(const std::string& family, const std::string& more) {
  return R"({"model_type": ")" + family +
         R"(", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 6,
 "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128)" +
         (more.empty() ? "" : ", " + more) + "}";
}

ModelConfig ReadExperts(const std::string& family, const std::string& more = "") {
  return ConfigFromHuggingFace(Text(family, more), "", "m");
}

std::string Refusal(const std::string& family, const std::string& more,
                    ErrorKind kind = ErrorKind::kFormat) {
  return ErrorMessage(kind, [&] { ReadExperts(family, more); });
}

TEST(ExpertsConfig, QwenDefaults) {
  const ModelConfig config = ReadExperts("qwen3_moe");
  EXPECT_EQ(config.experts.count, 128);
  EXPECT_EQ(config.experts.rule.chosen, 8);
  EXPECT_EQ(config.experts.inner_size, 768);
  EXPECT_EQ(config.experts.rule.shares, ExpertShares::kOfAll) << "norm_topk_prob is off";
  EXPECT_EQ(config.experts.rule.gate.limit, 0.0f);
  EXPECT_FALSE(config.experts.bias);
  EXPECT_FALSE(config.attention_sinks);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_THAT(config.experts.layers, Each(true));
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.attention.front().window, 0);
}

TEST(ExpertsConfig, DenseLayersBetween) {
  EXPECT_THAT(ReadExperts("qwen3_moe", R"("decoder_sparse_step": 2)").experts.layers,
              ElementsAre(false, true, false, true, false, true));
  EXPECT_THAT(ReadExperts("qwen3_moe", R"("mlp_only_layers": [0, 4, 99, -1])").experts.layers,
              ElementsAre(false, true, true, true, false, true));
  EXPECT_THAT(ReadExperts("qwen3_moe", R"("decoder_sparse_step": 3, "mlp_only_layers": [5])")
                  .experts.layers,
              ElementsAre(false, false, true, false, false, false));
  EXPECT_EQ(ReadExperts("qwen3_moe", R"("num_experts": 0)").experts.count, 0);
}

TEST(ExpertsConfig, BothNamesOfTheCount) {
  EXPECT_EQ(ReadExperts("qwen3_moe", R"("num_experts": 16)").experts.count, 16);
  EXPECT_EQ(
      ReadExperts("qwen3_moe", R"("num_local_experts": 20, "norm_topk_prob": true)").experts.count,
      20);
  EXPECT_EQ(ReadExperts("qwen3_moe", R"("norm_topk_prob": true)").experts.rule.shares,
            ExpertShares::kOfChosen);
}

TEST(ExpertsConfig, QwenWindowIsSwitched) {
  EXPECT_EQ(ReadExperts("qwen3_moe", R"("sliding_window": 12)").attention.front().window, 0);
  const ModelConfig config =
      ReadExperts("qwen3_moe", R"("sliding_window": 12, "use_sliding_window": true)");
  for (const LayerAttention& layer : config.attention) EXPECT_EQ(layer.window, 12);
}

TEST(ExpertsConfig, GptOssDefaults) {
  const ModelConfig config = ReadExperts("gpt_oss");
  EXPECT_EQ(config.experts.count, 128);
  EXPECT_EQ(config.experts.rule.chosen, 4);
  EXPECT_EQ(config.experts.inner_size, 128);
  EXPECT_EQ(config.experts.rule.shares, ExpertShares::kOfChosen);
  EXPECT_EQ(config.experts.rule.gate.limit, 7.0f);
  EXPECT_EQ(config.experts.rule.gate.slope, 1.702f);
  EXPECT_TRUE(config.experts.bias);
  EXPECT_TRUE(config.experts.in_pairs);
  EXPECT_TRUE(config.attention_sinks);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_TRUE(config.output_bias);
  EXPECT_EQ(config.head_dim, 64);
  std::vector<int> windows;
  for (const LayerAttention& layer : config.attention) windows.push_back(layer.window);
  EXPECT_THAT(windows, ElementsAre(128, 0, 128, 0, 128, 0));
  ASSERT_EQ(config.ropes.size(), 1u);
  EXPECT_EQ(config.ropes[0].kind, RopeKind::kYarn);
  EXPECT_EQ(config.ropes[0].theta, 150000.0);
  EXPECT_EQ(config.ropes[0].factor, 32.0);
  EXPECT_EQ(config.ropes[0].original_context, 4096);
  EXPECT_FALSE(config.ropes[0].truncate);
}

TEST(ExpertsConfig, GptOssSettings) {
  const ModelConfig config =
      ReadExperts("gpt_oss", R"("swiglu_limit": 3.5, "swiglu_alpha": 1.5, "attention_bias": false,
 "layer_types": ["full_attention", "full_attention", "sliding_attention", "full_attention",
 "full_attention", "full_attention"], "quantization_config": {"quant_method": "mxfp4"})");
  EXPECT_EQ(config.experts.rule.gate.limit, 3.5f);
  EXPECT_EQ(config.experts.rule.gate.slope, 1.5f);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_EQ(config.attention[2].window, 128);
  EXPECT_EQ(config.attention[0].window, 0);
}

TEST(ExpertsConfig, WhatCannotBe) {
  EXPECT_THAT(Refusal("qwen3_moe", R"("num_experts": -1)"),
              HasSubstr("the number of experts is -1"));
  EXPECT_THAT(Refusal("qwen3_moe", R"("num_experts": 100000)"), HasSubstr("1024"));
  EXPECT_THAT(Refusal("qwen3_moe", R"("num_experts_per_tok": 129)"),
              HasSubstr("the number of experts of a token"));
  EXPECT_THAT(Refusal("qwen3_moe", R"("num_experts_per_tok": 0)"), HasSubstr("of a token"));
  EXPECT_THAT(Refusal("qwen3_moe", R"("moe_intermediate_size": 0)"),
              HasSubstr("the size of an expert"));
  EXPECT_THAT(Refusal("qwen3_moe", R"("decoder_sparse_step": 0)"),
              HasSubstr("decoder_sparse_step is 0"));
  EXPECT_THAT(Refusal("qwen3_moe", R"("mlp_only_layers": 3)"), HasSubstr("expected a list"));
  EXPECT_THAT(Refusal("gpt_oss", R"("swiglu_limit": -1)"), HasSubstr("swiglu_limit is -1"));
  EXPECT_THAT(Refusal("gpt_oss", R"("swiglu_alpha": 0)"), HasSubstr("slope"));
  EXPECT_THAT(Refusal("qwen3_moe", R"("quantization_config": {"quant_method": "mxfp4"})",
                      ErrorKind::kUnsupported),
              HasSubstr("mxfp4"));
  EXPECT_THAT(Refusal("gpt_oss", R"("quantization_config": {"quant_method": "gptq"})",
                      ErrorKind::kUnsupported),
              HasSubstr("gptq"));
}

GgufWriter Header(const std::string& architecture) {
  GgufWriter writer;
  const std::string prefix = architecture + ".";
  writer.String("general.architecture", architecture);
  writer.U32(prefix + "context_length", 256);
  writer.U32(prefix + "embedding_length", 64);
  writer.U32(prefix + "block_count", 2);
  writer.U32(prefix + "feed_forward_length", 128);
  writer.U32(prefix + "attention.head_count", 4);
  writer.F32(prefix + "attention.layer_norm_rms_epsilon", 1e-5f);
  writer.Strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  return writer;
}

ModelConfig ReadGguf(const GgufWriter& writer) {
  const std::string bytes = writer.Bytes();
  return ConfigFromGguf(GgufFile(std::as_bytes(std::span(bytes)), "m.gguf"));
}

TEST(ExpertsConfig, Gguf) {
  GgufWriter writer = Header("qwen3moe");
  writer.U32("qwen3moe.expert_count", 16);
  writer.U32("qwen3moe.expert_used_count", 3);
  writer.U32("qwen3moe.expert_feed_forward_length", 96);
  const std::vector<float> values(64);
  writer.TensorF32("blk.1.ffn_gate.weight", std::vector<std::int64_t>{1, 64}, values);
  const ModelConfig config = ReadGguf(writer);
  EXPECT_EQ(config.family, "qwen3_moe");
  EXPECT_EQ(config.experts.count, 16);
  EXPECT_EQ(config.experts.rule.chosen, 3);
  EXPECT_EQ(config.experts.inner_size, 96);
  EXPECT_EQ(config.experts.rule.shares, ExpertShares::kOfChosen);
  EXPECT_THAT(config.experts.layers, ElementsAre(true, false));
}

TEST(ExpertsConfig, GgufRefusals) {
  GgufWriter missing = Header("qwen3moe");
  missing.U32("qwen3moe.expert_count", 16);
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [&] { ReadGguf(missing); }),
              HasSubstr("expert_used_count"));
  GgufWriter other = Header("llama");
  other.U32("llama.expert_count", 8);
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { ReadGguf(other); }),
              HasSubstr("a mixture of experts of architecture 'llama'"));
  GgufWriter shared = Header("qwen3moe");
  shared.U32("qwen3moe.expert_count", 16);
  shared.U32("qwen3moe.expert_shared_count", 1);
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { ReadGguf(shared); }),
              HasSubstr("expert_shared_count is 1"));
  GgufWriter many = Header("gpt-oss");
  many.U32("gpt-oss.expert_count", 4000000000u);
  many.U32("gpt-oss.expert_used_count", 4);
  many.U32("gpt-oss.expert_feed_forward_length", 96);
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [&] { ReadGguf(many); }),
              HasSubstr("the number of experts"));
}

}  // namespace
}  // namespace banyan
