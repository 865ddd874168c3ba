// What the families that differ from Llama in more than sizes make of their configuration files.
#include "model/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "formats/gguf.h"
#include "support/error_message.h"
#include "support/gguf_writer.h"
#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::ErrorMessage;
using testing_support::GgufWriter;
using testing_support::TempDirectory;

// Seven layers; `more` adds keys, or removes those that it has as "absent".
ModelConfig ReadFamily(const std::string& family, const std::string& more = "{}") {
  Json json = {{"model_type", family},     {"vocab_size", 300},
               {"hidden_size", 64},        {"num_hidden_layers", 7},
               {"num_attention_heads", 4}, {"intermediate_size", 128},
               {"num_key_value_heads", 2}, {"max_position_embeddings", 2048}};
  const Json changes = Json::parse(more);
  for (const auto& [key, value] : changes.items()) {
    json.erase(key);
    if (value != "absent") json[key] = value;
  }
  return ConfigFromHuggingFace(json.dump(), "", "m");
}

std::string Refusal(ErrorKind kind, const std::string& family, const std::string& more) {
  return ErrorMessage(kind, [&] { ReadFamily(family, more); });
}

// "w512 r1" a layer: window and rope; "r-" where nothing turns.
std::string LayersOf(const ModelConfig& config) {
  std::string text;
  for (const LayerAttention& layer : config.attention) {
    text += "w" + std::to_string(layer.window) + "r" +
            (layer.rope == kNoRope ? "-" : std::to_string(layer.rope)) + " ";
  }
  return text;
}

TEST(Families, EveryOneIsFoundByBothNames) {
  for (const Family& family : Families()) {
    EXPECT_EQ(FindFamily(family.name), &family);
    if (!family.gguf_architecture.empty()) {
      EXPECT_NE(FindFamilyOfGguf(family.gguf_architecture), nullptr) << family.name;
    }
    EXPECT_THAT(SupportedFamilies(), HasSubstr(std::string(family.description)));
  }
  EXPECT_EQ(FindFamily("mamba2"), nullptr);
  EXPECT_EQ(FindFamilyOfGguf("mamba2"), nullptr);
}

TEST(Families, Gemma3Defaults) {
  const ModelConfig config = ReadFamily("gemma3_text", R"({"num_key_value_heads": "absent",
      "num_attention_heads": "absent", "vocab_size": "absent", "sliding_window": 512})");
  EXPECT_EQ(config.vocab_size, 262208);
  EXPECT_EQ(config.heads, 8);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_TRUE(config.tied_embeddings && config.norms_minus_one);
  EXPECT_EQ(config.norm_placement, NormPlacement::kAround);
  EXPECT_EQ(config.qk_norm, QkNorm::kPerHead);
  EXPECT_EQ(config.gate, Gate::kGeluTanh);
  EXPECT_EQ(config.embedding_scale, 8.0f);
  EXPECT_EQ(config.attention_scale, 1.0f / 16.0f);
  EXPECT_EQ(config.logit_cap, 0.0f);
  EXPECT_EQ(LayersOf(config), "w512r1 w512r1 w512r1 w512r1 w512r1 w0r0 w512r1 ");
  EXPECT_EQ(config.ropes.at(0).theta, 1e6);
  EXPECT_EQ(config.ropes.at(1).theta, 1e4);
}

TEST(Families, Gemma3ScalesOnlyLayersThatSeeAll) {
  const ModelConfig old_style = ReadFamily("gemma3_text", R"({"sliding_window_pattern": 3,
      "rope_theta": 5e5, "rope_local_base_freq": 2e4, "query_pre_attn_scalar": 100,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "final_logit_softcapping": 30.0})");
  const ModelConfig new_style = ReadFamily("gemma3_text", R"({"query_pre_attn_scalar": 100,
      "layer_types": ["sliding_attention", "sliding_attention", "full_attention",
                      "sliding_attention", "sliding_attention", "full_attention",
                      "sliding_attention"],
      "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}},
      "final_logit_softcapping": 30.0})");
  for (const ModelConfig& config : {old_style, new_style}) {
    EXPECT_EQ(LayersOf(config), "w4096r1 w4096r1 w0r0 w4096r1 w4096r1 w0r0 w4096r1 ");
    EXPECT_EQ(config.ropes.at(0).kind, RopeKind::kLinear);
    EXPECT_EQ(config.ropes.at(0).theta, 5e5);
    EXPECT_EQ(config.ropes.at(0).factor, 8.0);
    EXPECT_EQ(config.ropes.at(1).kind, RopeKind::kPlain);
    EXPECT_EQ(config.ropes.at(1).theta, 2e4);
    EXPECT_EQ(config.attention_scale, 0.1f);
    EXPECT_EQ(config.logit_cap, 30.0f);
  }
}

TEST(Families, TextPartOfAModelForImages) {
  const ModelConfig config = ConfigFromHuggingFace(R"({"model_type": "gemma3",
      "eos_token_id": [1, 106], "vision_config": {"hidden_size": 1152},
      "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34,
                      "intermediate_size": 10240, "sliding_window": 1024,
                      "rope_scaling": {"rope_type": "linear", "factor": 8.0}}})",
                                                   "", "m");
  EXPECT_EQ(config.family, "gemma3_text");
  EXPECT_EQ(config.hidden_size, 2560);
  EXPECT_EQ(config.heads, 8);
  EXPECT_THAT(config.eos, ElementsAre(1, 106));
  const ModelConfig mistral = ConfigFromHuggingFace(R"({"model_type": "mistral3",
      "text_config": {"model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40,
                      "num_attention_heads": 32, "intermediate_size": 32768, "head_dim": 128,
                      "vocab_size": 131072, "sliding_window": null, "rope_theta": 1e9}})",
                                                    "", "m");
  EXPECT_EQ(mistral.head_dim, 128);
  EXPECT_EQ(mistral.ropes.at(0).theta, 1e9);
}

TEST(Families, SmolLm3HasNoRopeInEveryFourthLayer) {
  EXPECT_EQ(LayersOf(ReadFamily("smollm3")), "w0r0 w0r0 w0r0 w0r- w0r0 w0r0 w0r0 ");
  EXPECT_EQ(LayersOf(ReadFamily("smollm3", R"({"no_rope_layer_interval": 2})")),
            "w0r0 w0r- w0r0 w0r- w0r0 w0r- w0r0 ");
  EXPECT_EQ(LayersOf(ReadFamily("smollm3", R"({"no_rope_layers": [0, 1, 1, 1, 1, 1, 0],
      "use_sliding_window": true, "sliding_window": 9})")),
            "w9r- w0r0 w0r0 w0r0 w0r0 w0r0 w9r- ");
  EXPECT_EQ(ReadFamily("smollm3").ropes.at(0).theta, 2e6);
  EXPECT_TRUE(ReadFamily("smollm3").tied_embeddings);
}

TEST(Families, Olmo3StretchesLayersThatSeeAll) {
  const ModelConfig config = ReadFamily("olmo3", R"({"rope_theta": 5e5, "sliding_window": 24,
      "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "attention_factor": 1.2,
                       "original_max_position_embeddings": 256}})");
  EXPECT_EQ(LayersOf(config), "w24r1 w24r1 w24r1 w0r0 w24r1 w24r1 w24r1 ");
  EXPECT_EQ(config.ropes.at(0).kind, RopeKind::kYarn);
  EXPECT_EQ(config.ropes.at(1).kind, RopeKind::kPlain);
  EXPECT_EQ(config.ropes.at(1).theta, 5e5);
}

TEST(Families, GraniteHasFourScalars) {
  const ModelConfig config = ReadFamily("granite", R"({"embedding_multiplier": 12,
      "attention_multiplier": 0.0625, "residual_multiplier": 0.22, "logits_scaling": 8})");
  EXPECT_EQ(config.embedding_scale, 12.0f);
  EXPECT_EQ(config.attention_scale, 0.0625f);
  EXPECT_EQ(config.residual_scale, 0.22f);
  EXPECT_EQ(config.logit_scale, 0.125f);
  EXPECT_EQ(ReadFamily("granite").attention_scale, 1.0f);
}

TEST(Families, Granite4OfAttentionAlone) {
  const std::string layers =
      R"("layer_types": ["attention", "attention", "attention", "attention", "attention",
                         "attention", "attention"], "shared_intermediate_size": 96)";
  const std::string dense = layers + R"(, "num_local_experts": 0)";
  const ModelConfig config =
      ReadFamily("granitemoehybrid", "{" + dense + R"(, "position_embedding_type": "rope"})");
  EXPECT_EQ(config.ffn_size, 96);
  EXPECT_EQ(LayersOf(config), "w0r0 w0r0 w0r0 w0r0 w0r0 w0r0 w0r0 ");
  EXPECT_EQ(LayersOf(ReadFamily("granitemoehybrid", "{" + dense + "}")),
            "w0r- w0r- w0r- w0r- w0r- w0r- w0r- ");
  const ModelConfig mixture = ReadFamily(
      "granitemoehybrid", "{" + layers + R"(, "num_local_experts": 6, "intermediate_size": 24})");
  EXPECT_EQ(mixture.experts.count, 6);
  EXPECT_EQ(mixture.experts.inner_size, 24);
  EXPECT_EQ(mixture.experts.beside, BlockBeside::kPlain);
  EXPECT_EQ(mixture.FfnSize(0), 96);
  std::string other = dense;
  other.replace(other.find("attention"), 9, "rwkv");
  EXPECT_THAT(Refusal(ErrorKind::kUnsupported, "granitemoehybrid", "{" + other + "}"),
              HasSubstr("\"rwkv\""));
}

TEST(Families, Ministral3HasATemperature) {
  const RopeConfig rope = ReadFamily("ministral3").ropes.at(0);
  EXPECT_EQ(rope.kind, RopeKind::kYarn);
  EXPECT_EQ(rope.query_beta, 0.1);
  EXPECT_EQ(rope.original_context, 16384);
  const RopeConfig plain = ReadFamily("ministral3", R"({"rope_parameters": {"rope_type": "default",
      "llama_4_scaling_beta": 0.2, "original_max_position_embeddings": 64}})")
                               .ropes.at(0);
  EXPECT_EQ(plain.query_beta, 0.2);
  EXPECT_EQ(plain.original_context, 64);
  EXPECT_EQ(ReadFamily("ministral3").head_dim, 128);
}

TEST(Families, BadValuesAreNamed) {
  const auto gemma = [](const std::string& more) {
    return Refusal(ErrorKind::kFormat, "gemma3_text", more);
  };
  EXPECT_THAT(gemma(R"({"sliding_window_pattern": 0})"), HasSubstr("sliding_window_pattern is 0"));
  EXPECT_THAT(gemma(R"({"sliding_window_pattern": -6})"), HasSubstr("is -6"));
  EXPECT_THAT(gemma(R"({"query_pre_attn_scalar": -1})"), HasSubstr("scale of attention scores"));
  EXPECT_THAT(gemma(R"({"query_pre_attn_scalar": 0})"), HasSubstr("scale of attention scores"));
  EXPECT_THAT(gemma(R"({"final_logit_softcapping": -3})"), HasSubstr("cap of logits is -3"));
  EXPECT_THAT(gemma(R"({"sliding_window": null})"), HasSubstr("no sliding_window"));
  EXPECT_THAT(gemma(R"({"sliding_window": -5})"), HasSubstr("a sliding window is -5"));
  EXPECT_THAT(gemma(R"({"layer_types": ["full_attention"]})"), HasSubstr("list of 7 entries"));
  EXPECT_THAT(gemma(R"({"rope_parameters": {"full_attention": 3}})"),
              HasSubstr("expected an object, found number"));
  EXPECT_THAT(gemma(R"({"rope_local_base_freq": -1})"), HasSubstr("rope theta is -1"));
  EXPECT_THAT(Refusal(ErrorKind::kFormat, "smollm3", R"({"no_rope_layers": [1, 0]})"),
              HasSubstr("'no_rope_layers': expected a list of 7 entries"));
  EXPECT_THAT(Refusal(ErrorKind::kFormat, "smollm3", R"({"no_rope_layer_interval": 0})"),
              HasSubstr("no_rope_layer_interval is 0"));
  EXPECT_THAT(Refusal(ErrorKind::kFormat, "granite", R"({"residual_multiplier": 0})"),
              HasSubstr("scale of residuals is 0"));
  EXPECT_THAT(Refusal(ErrorKind::kFormat, "granite", R"({"logits_scaling": 0})"),
              HasSubstr("scale of logits"));
  EXPECT_THAT(Refusal(ErrorKind::kFormat, "ministral3", R"({"rope_parameters":
      {"rope_type": "default", "llama_4_scaling_beta": -1}})"),
              HasSubstr("llama_4_scaling_beta is -1"));
  EXPECT_THAT(Refusal(ErrorKind::kUnsupported, "gemma3_text", R"({"hidden_activation": "relu"})"),
              HasSubstr("hidden_activation 'relu'"));
  EXPECT_THAT(
      Refusal(ErrorKind::kUnsupported, "gemma3_text", R"({"use_bidirectional_attention": true})"),
      HasSubstr("use_bidirectional_attention"));
}

class GgufFamilies : public testing::Test {
 protected:
  static GgufWriter Header(const std::string& architecture, std::uint32_t layers) {
    GgufWriter writer;
    writer.String("general.architecture", architecture);
    const std::vector<std::pair<const char*, std::uint32_t>> numbers = {
        {"context_length", 2048},      {"embedding_length", 640},
        {"block_count", layers},       {"feed_forward_length", 128},
        {"attention.head_count", 4},   {"attention.key_length", 256},
        {"vocab_size", 300},           {"attention.value_length", 256},
        {"attention.head_count_kv", 1}};
    for (const auto& [key, value] : numbers) writer.U32(architecture + "." + key, value);
    writer.F32(architecture + ".attention.layer_norm_rms_epsilon", 1e-6f);
    return writer;
  }
  ModelConfig Read(GgufWriter& writer) {
    writer.Write(directory_.path() / "m.gguf");
    return ConfigFromGguf(GgufFile(directory_.path() / "m.gguf"));
  }
  TempDirectory directory_;
};

TEST_F(GgufFamilies, Gemma3) {
  GgufWriter writer = Header("gemma3", 7);
  writer.U32("gemma3.attention.sliding_window", 512);
  writer.F32("gemma3.rope.freq_base", 1e6f);
  writer.String("gemma3.rope.scaling.type", "linear");
  writer.F32("gemma3.rope.scaling.factor", 8.0f);
  const ModelConfig config = Read(writer);
  EXPECT_EQ(config.family, "gemma3_text");
  EXPECT_EQ(LayersOf(config), "w512r1 w512r1 w512r1 w512r1 w512r1 w0r0 w512r1 ");
  EXPECT_EQ(config.ropes.at(0).factor, 8.0);
  EXPECT_EQ(config.ropes.at(1).theta, 1e4);
  EXPECT_EQ(config.attention_scale, 1.0f / 16.0f);
  EXPECT_EQ(config.embedding_scale, std::sqrt(640.0f));
  EXPECT_FALSE(config.norms_minus_one);
}

TEST_F(GgufFamilies, Gemma3Of27BScalesByWidth) {
  GgufWriter writer = Header("gemma3", 62);
  EXPECT_EQ(Read(writer).attention_scale, 1.0f / std::sqrt(160.0f));
}

TEST_F(GgufFamilies, PatternsAsListsAndNumbers) {
  GgufWriter flags = Header("gemma3", 3);
  flags.U32("gemma3.attention.sliding_window", 9);
  flags.Array<std::uint8_t>("gemma3.attention.sliding_window_pattern", 7,
                            std::vector<std::uint8_t>{0, 1, 0});
  flags.F32("gemma3.rope.freq_base_swa", 777.0f);
  const ModelConfig config = Read(flags);
  EXPECT_EQ(LayersOf(config), "w0r0 w9r1 w0r0 ");
  EXPECT_EQ(config.ropes.at(1).theta, 777.0);
  GgufWriter number = Header("gemma3", 3);
  number.U32("gemma3.attention.sliding_window", 9);
  number.U32("gemma3.attention.sliding_window_pattern", 2);
  EXPECT_EQ(LayersOf(Read(number)), "w9r1 w0r0 w9r1 ");
  GgufWriter shorter = Header("gemma3", 3);
  shorter.U32("gemma3.attention.sliding_window", 9);
  shorter.Array<std::uint8_t>("gemma3.attention.sliding_window_pattern", 7,
                              std::vector<std::uint8_t>{0, 1});
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [&] { Read(shorter); }),
              HasSubstr("expected 3 entries, found 2"));
}

TEST_F(GgufFamilies, Olmo3IsOlmo2WithAWindow) {
  GgufWriter without = Header("olmo2", 5);
  EXPECT_EQ(Read(without).family, "olmo2");
  GgufWriter with = Header("olmo2", 5);
  with.U32("olmo2.attention.sliding_window", 24);
  with.String("olmo2.rope.scaling.type", "yarn");
  with.F32("olmo2.rope.scaling.factor", 8.0f);
  const ModelConfig config = Read(with);
  EXPECT_EQ(config.family, "olmo3");
  EXPECT_EQ(LayersOf(config), "w24r1 w24r1 w24r1 w0r0 w24r1 ");
  EXPECT_EQ(config.ropes.at(0).kind, RopeKind::kYarn);
  EXPECT_EQ(config.ropes.at(1).kind, RopeKind::kPlain);
}

TEST_F(GgufFamilies, GraniteMayTurnNothing) {
  GgufWriter writer = Header("granite", 2);
  writer.F32("granite.logit_scale", 8.0f);
  writer.F32("granite.residual_scale", 0.22f);
  writer.Bool("granite.rope.scaling.finetuned", false);
  const ModelConfig config = Read(writer);
  EXPECT_EQ(LayersOf(config), "w0r- w0r- ");
  EXPECT_EQ(config.logit_scale, 0.125f);
  EXPECT_EQ(config.residual_scale, 0.22f);
}

TEST_F(GgufFamilies, UnknownArchitecture) {
  GgufWriter writer = Header("mamba2", 2);
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { Read(writer); }),
              HasSubstr("architecture 'mamba2': not supported; supported: llama ("));
}

}  // namespace
}  // namespace banyan
