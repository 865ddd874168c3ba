#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "base/json.h"
#include "model/families.h"
#include "support/error_message.h"
#include "support/oracle_folders.h"

namespace banyan {
namespace {

std::vector<int> WindowsOf(const ModelConfig& config) {
  std::vector<int> windows;
  for (const LayerAttention& layer : config.attention) windows.push_back(layer.window);
  return windows;
}

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::ErrorMessage;

// The keys that every family needs, and `more`; the value "absent" removes a key.
std::string ConfigText(const std::string& family, const std::string& more = "{}") {
  Json json = {{"model_type", family},   {"vocab_size", 100},        {"hidden_size", 64},
               {"num_hidden_layers", 4}, {"num_attention_heads", 4}, {"intermediate_size", 128}};
  const Json changes = Json::parse(more);
  for (const auto& [key, value] : changes.items()) {
    if (value == "absent") {
      json.erase(key);
    } else {
      json[key] = value;
    }
  }
  return json.dump();
}

ModelConfig Read(const std::string& family, const std::string& more = "{}",
                 const std::string& generation = "") {
  return ConfigFromHuggingFace(ConfigText(family, more), generation, "m");
}

std::string MessageOf(ErrorKind kind, const std::string& family, const std::string& more) {
  return ErrorMessage(kind, [&] { Read(family, more); });
}

TEST(Config, LlamaDefaults) {
  const ModelConfig config = Read("llama");
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.context_length, 2048);
  EXPECT_EQ(config.rms_eps, 1e-6f);
  EXPECT_FALSE(config.qkv_bias || config.output_bias || config.mlp_bias || config.tied_embeddings);
  EXPECT_EQ(config.ropes[0].kind, RopeKind::kPlain);
  EXPECT_EQ(config.ropes[0].theta, 10000.0);
  EXPECT_EQ(config.ropes[0].rotary_dim, 16);
  EXPECT_EQ(config.bos, 1);
  EXPECT_THAT(config.eos, ElementsAre(2));
  EXPECT_THAT(WindowsOf(config), ElementsAre(0, 0, 0, 0));
}

TEST(Config, LlamaBiases) {
  const ModelConfig config = Read("llama", R"({"attention_bias": true, "mlp_bias": true})");
  EXPECT_TRUE(config.qkv_bias && config.output_bias && config.mlp_bias);
}

TEST(Config, BothRopeStyles) {
  const ModelConfig old_style = Read("llama", R"({"rope_theta": 500000.0,
      "max_position_embeddings": 131072,
      "rope_scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 2.0,
                       "high_freq_factor": 5.0, "original_max_position_embeddings": 8192}})");
  const ModelConfig new_style = Read("llama", R"({"max_position_embeddings": 131072,
      "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                          "low_freq_factor": 2.0, "high_freq_factor": 5.0,
                          "original_max_position_embeddings": 8192}})");
  for (const ModelConfig& config : {old_style, new_style}) {
    EXPECT_EQ(config.ropes[0].kind, RopeKind::kLlama3);
    EXPECT_EQ(config.ropes[0].theta, 500000.0);
    EXPECT_EQ(config.ropes[0].factor, 8.0);
    EXPECT_EQ(config.ropes[0].low_freq_factor, 2.0);
    EXPECT_EQ(config.ropes[0].high_freq_factor, 5.0);
    EXPECT_EQ(config.ropes[0].original_context, 8192);
  }
}

TEST(Config, RopeScalingNullOrLinear) {
  EXPECT_EQ(Read("llama", R"({"rope_scaling": null, "rope_theta": 5e6})").ropes[0].theta, 5e6);
  const RopeConfig linear =
      Read("llama", R"({"rope_scaling": {"rope_type": "linear", "factor": 4}})").ropes[0];
  EXPECT_EQ(linear.kind, RopeKind::kLinear);
  EXPECT_EQ(linear.factor, 4.0);
}

TEST(Config, YarnTakesWhatIsAbsentFromTheContext) {
  const RopeConfig rope = Read("qwen2", R"({"max_position_embeddings": 32768,
      "num_key_value_heads": 2, "rope_scaling": {"type": "yarn", "factor": 4.0}})")
                              .ropes[0];
  EXPECT_EQ(rope.kind, RopeKind::kYarn);
  EXPECT_EQ(rope.original_context, 32768);
  EXPECT_EQ(rope.beta_fast, 32.0);
  EXPECT_TRUE(rope.truncate);
  const RopeConfig implied = Read("qwen2", R"({"max_position_embeddings": 32768,
      "num_key_value_heads": 2, "rope_scaling": {"type": "yarn", "factor": null,
      "original_max_position_embeddings": 8192}})")
                                 .ropes[0];
  EXPECT_EQ(implied.factor, 4.0);
}

TEST(Config, Phi3LongRope) {
  const std::string scaling = R"({"type": "su", "short_factor": [1, 1.1, 1.2, 1.3, 1.4, 1.5],
                                  "long_factor": [2, 3, 4, 5, 6, 7]})";
  const ModelConfig config =
      Read("phi3", R"({"max_position_embeddings": 131072, "partial_rotary_factor": 0.75,
                       "rope_scaling": )" +
                       scaling + "}");
  EXPECT_EQ(config.ropes[0].kind, RopeKind::kLongRope);
  EXPECT_EQ(config.ropes[0].rotary_dim, 12);
  EXPECT_EQ(config.ropes[0].original_context, 4096);
  EXPECT_EQ(config.ropes[0].factor, 32.0);
  EXPECT_EQ(config.ropes[0].long_factor.back(), 7.0);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_THAT(MessageOf(ErrorKind::kFormat, "phi3", R"({"rope_scaling": )" + scaling + "}"),
              HasSubstr("short_factor has 6 values, expected 8"));
}

TEST(Config, Phi3Window) {
  EXPECT_THAT(WindowsOf(Read("phi3")), Each(0));
  EXPECT_THAT(WindowsOf(Read("phi3", R"({"sliding_window": 2047})")), Each(2047));
}

TEST(Config, MistralWindow) {
  const std::string heads = R"("num_key_value_heads": 2)";
  EXPECT_THAT(WindowsOf(Read("mistral", "{" + heads + "}")), Each(4096));  // absent: the default
  EXPECT_THAT(WindowsOf(Read("mistral", "{" + heads + R"(, "sliding_window": null})")), Each(0));
  EXPECT_THAT(WindowsOf(Read("mistral", "{" + heads + R"(, "sliding_window": 7})")), Each(7));
  const ModelConfig nemo = Read("mistral", "{" + heads + R"(, "head_dim": 32})");
  EXPECT_EQ(nemo.head_dim, 32);
  EXPECT_EQ(nemo.ropes[0].rotary_dim, 32);
}

TEST(Config, QwenWindowsAsTransformersHasThem) {
  const auto windows = [](const std::string& more) {
    return WindowsOf(Read("qwen2", R"({"num_key_value_heads": 2, )" + more + "}"));
  };
  EXPECT_THAT(windows(R"("sliding_window": 9)"), Each(0));
  EXPECT_THAT(windows(R"("sliding_window": 9, "use_sliding_window": true)"), Each(0));
  EXPECT_THAT(windows(R"("sliding_window": 9, "use_sliding_window": true, "max_window_layers": 3)"),
              ElementsAre(0, 0, 0, 9));
  EXPECT_THAT(windows(R"("sliding_window": 9, "use_sliding_window": true, "layer_types":
      ["sliding_attention", "full_attention", "sliding_attention", "full_attention"])"),
              ElementsAre(9, 0, 9, 0));
  EXPECT_THAT(MessageOf(ErrorKind::kFormat, "qwen2",
                        R"({"num_key_value_heads": 2, "layer_types": ["full_attention"]})"),
              HasSubstr("expected a list of 4 entries"));
}

TEST(Config, QwenBiasesAndNorms) {
  const ModelConfig qwen2 = Read("qwen2", R"({"num_key_value_heads": 2})");
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.output_bias);
  EXPECT_THAT(qwen2.eos, IsEmpty());
  const ModelConfig qwen3 = Read("qwen3", R"({"num_key_value_heads": 2})");
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_EQ(qwen3.qk_norm, QkNorm::kPerHead);
  EXPECT_FALSE(qwen3.qkv_bias);
}

TEST(Config, Olmo2) {
  const ModelConfig config = Read("olmo2");
  EXPECT_EQ(config.norm_placement, NormPlacement::kAfter);
  EXPECT_EQ(config.qk_norm, QkNorm::kWhole);
  EXPECT_EQ(config.rms_eps, 1e-5f);
}

TEST(Config, SpecialTokens) {
  EXPECT_THAT(Read("llama", R"({"eos_token_id": [3, 5]})").eos, ElementsAre(3, 5));
  EXPECT_THAT(Read("llama", R"({"eos_token_id": 3})", R"({"eos_token_id": [7, 8]})").eos,
              ElementsAre(7, 8));
  EXPECT_THAT(Read("llama", R"({"eos_token_id": null})").eos, IsEmpty());
  EXPECT_EQ(Read("llama", R"({"bos_token_id": null})").bos, std::nullopt);
  EXPECT_THAT(Read("llama", R"({"eos_token_id": [-1, 100, 99]})").eos, ElementsAre(99));
  EXPECT_THAT(MessageOf(ErrorKind::kFormat, "llama", R"({"eos_token_id": "x"})"),
              HasSubstr("'eos_token_id': expected an integer, found string"));
}

TEST(Config, RefusesWhatWeDoNotHave) {
  EXPECT_THAT(MessageOf(ErrorKind::kUnsupported, "gpt2", "{}"),
              HasSubstr("model_type 'gpt2': not supported; supported: llama (Llama 1"));
  EXPECT_THAT(MessageOf(ErrorKind::kUnsupported, "llama", R"({"hidden_act": "gelu"})"),
              HasSubstr("hidden_act 'gelu'"));
  EXPECT_THAT(MessageOf(ErrorKind::kUnsupported, "llama",
                        R"({"quantization_config": {"quant_method": "awq"}})"),
              HasSubstr("'awq'"));
  EXPECT_THAT(MessageOf(ErrorKind::kUnsupported, "llama",
                        R"({"rope_scaling": {"type": "dynamic", "factor": 2}})"),
              HasSubstr("rope type 'dynamic'"));
}

TEST(Config, RefusesBadValues) {
  const auto message = [](const std::string& more) {
    return MessageOf(ErrorKind::kFormat, "llama", more);
  };
  EXPECT_EQ(message(R"({"vocab_size": "absent"})"), "m/config.json: 'vocab_size' is missing");
  EXPECT_THAT(message(R"({"vocab_size": "x"})"), HasSubstr("expected an integer, found string"));
  EXPECT_THAT(message(R"({"vocab_size": 1.5})"), HasSubstr("expected a 32-bit integer, found 1.5"));
  EXPECT_THAT(message(R"({"vocab_size": 1e300})"), HasSubstr("expected a 32-bit integer"));
  EXPECT_THAT(message(R"({"hidden_size": -64})"), HasSubstr("the hidden size is -64"));
  EXPECT_THAT(message(R"({"num_hidden_layers": 2000000000})"), HasSubstr("expected 1 to 4096"));
  EXPECT_THAT(message(R"({"num_attention_heads": 0})"), HasSubstr("expected at least 1"));
  EXPECT_THAT(message(R"({"num_key_value_heads": 3})"), HasSubstr("3 KV heads do not divide 4"));
  EXPECT_THAT(message(R"({"head_dim": 15})"), HasSubstr("expected an even number"));
  EXPECT_THAT(message(R"({"rms_norm_eps": 0})"), HasSubstr("epsilon"));
  EXPECT_THAT(message(R"({"rope_theta": -1})"), HasSubstr("rope theta is -1"));
  EXPECT_THAT(message(R"({"rope_scaling": {"type": "linear"}})"), HasSubstr("'factor' is missing"));
  EXPECT_THAT(message(R"({"rope_scaling": 3})"), HasSubstr("expected an object, found number"));
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [] { ConfigFromHuggingFace("[", "", "m"); }),
              HasSubstr("m/config.json: not valid JSON"));
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [] { ConfigFromHuggingFace("[]", "", "m"); }),
              HasSubstr("expected an object, found array"));
}

TEST(Config, EveryTruncationIsAnError) {
  const std::string whole =
      ConfigText("llama", R"({"rope_scaling": {"type": "linear", "factor": 2}})");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(ConfigFromHuggingFace(whole.substr(0, size), "", "m"), Error) << size;
  }
}

TEST(Config, OracleModels) {
  for (const std::filesystem::path& model : testing_support::OraclesOf("models")) {
    const ModelConfig config = ConfigFromHuggingFace(
        ReadTextFile(model / "config.json", 1 << 20),
        ReadTextFile(model / "generation_config.json", 1 << 20), model.string());
    EXPECT_EQ(config.vocab_size, testing_support::IsSharedOracle(model) ? 512 : 256);
    EXPECT_THAT(WindowsOf(config), Each(0));
    EXPECT_THAT(config.eos, ElementsAre(2));
  }
}

}  // namespace
}  // namespace banyan
