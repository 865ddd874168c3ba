// What configurations of models that keep states become, in the words of old files and new ones.
#include "model/config_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "support/error_message.h"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::ErrorMessage;

Json Lfm2Json() {
  return {{"model_type", "lfm2"},    {"vocab_size", 300},        {"hidden_size", 64},
          {"num_hidden_layers", 3},  {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"intermediate_size", 96}, {"full_attn_idxs", {1}}};
}

Json QwenJson(const std::string& type) {
  return {{"model_type", type},
          {"vocab_size", 300},
          {"hidden_size", 64},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 32},
          {"intermediate_size", 96},
          {"shared_expert_intermediate_size", 48},
          {"num_experts", 6},
          {"num_experts_per_tok", 2},
          {"moe_intermediate_size", 24},
          {"linear_num_value_heads", 4},
          {"linear_num_key_heads", 2},
          {"linear_key_head_dim", 6},
          {"linear_value_head_dim", 10}};
}

Json GraniteJson() {
  return {{"model_type", "granitemoehybrid"},
          {"vocab_size", 300},
          {"hidden_size", 64},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"shared_intermediate_size", 96},
          {"num_local_experts", 0},
          {"layer_types", {"mamba", "attention", "mamba"}},
          {"mamba_n_heads", 8},
          {"mamba_d_head", "auto"},
          {"mamba_d_state", 12}};
}

ModelConfig ReadStatesOf(const Json& json) { return ConfigFromHuggingFace(json.dump(), "", "m"); }

std::string StatesRefusal(const Json& json, ErrorKind kind = ErrorKind::kFormat) {
  return ErrorMessage(kind, [&] { ReadStatesOf(json); });
}

TEST(ConfigStates, Lfm2) {
  ModelConfig config = ReadStatesOf(Lfm2Json());
  EXPECT_THAT(config.states.layers, ElementsAre(true, false, true));
  EXPECT_EQ(config.states.shape.rule, StateRule::kConvolution);
  EXPECT_EQ(config.states.shape.channels, 64);
  EXPECT_EQ(config.states.shape.taps, 3);
  EXPECT_EQ(config.ffn_size, 256);  // two thirds of 96, rounded up to a multiple of 256
  EXPECT_EQ(StateBytesOf(config), 2 * 2 * 64 * 4);
  EXPECT_EQ(KvShapeOf(config).layers, 1);
  EXPECT_EQ(KvLayerOf(config, 1), 0);
  EXPECT_EQ(StateLayersBefore(config, 2), 1);

  Json json = Lfm2Json();
  json["layer_types"] = {"full_attention", "conv", "full_attention"};
  json["block_auto_adjust_ff_dim"] = false;
  config = ReadStatesOf(json);
  EXPECT_THAT(config.states.layers, ElementsAre(false, true, false));
  EXPECT_EQ(config.ffn_size, 96);
  json["layer_types"] = {"full_attention", "full_attention", "full_attention"};
  EXPECT_FALSE(ReadStatesOf(json).states.any());
}

TEST(ConfigStates, Qwen) {
  const ModelConfig dense = ReadStatesOf(QwenJson("qwen3_5_text"));
  EXPECT_THAT(dense.states.layers, ElementsAre(true, true, true, false));
  EXPECT_EQ(dense.states.shape.channels, 2 * 2 * 6 + 4 * 10);
  EXPECT_EQ(dense.states.shape.taps, 4);
  EXPECT_TRUE(dense.output_gate && dense.norms_minus_one && !dense.states.by_key_head);
  EXPECT_EQ(dense.experts.count, 0);
  EXPECT_EQ(dense.ropes.at(0).rotary_dim, 8);
  // A matrix has its values rounded up to 16.
  EXPECT_EQ(StateBytesOf(dense), 3 * 4 * (3 * 64 + 4 * 6 * 16));

  Json mixture = QwenJson("qwen3_5_moe_text");
  const ModelConfig moe = ReadStatesOf(mixture);
  EXPECT_TRUE(moe.experts.beside == BlockBeside::kGated && moe.HasBlock(0) && moe.HasExperts(0));
  EXPECT_EQ(moe.FfnSize(0), 48);
  EXPECT_EQ(moe.experts.rule.shares, ExpertShares::kOfChosen);

  Json next = QwenJson("qwen3_next");
  next["mlp_only_layers"] = {2};
  next["full_attention_interval"] = 2;
  const ModelConfig old = ReadStatesOf(next);
  EXPECT_THAT(old.states.layers, ElementsAre(true, false, true, false));
  EXPECT_TRUE(old.states.by_key_head);
  EXPECT_EQ(old.FfnSize(1), 48);
  EXPECT_EQ(old.FfnSize(2), 96);
}

TEST(ConfigStates, Granite) {
  Json json = GraniteJson();
  const ModelConfig config = ReadStatesOf(json);
  EXPECT_EQ(config.states.shape.rule, StateRule::kMamba2);
  EXPECT_EQ(config.states.shape.value_dim, 16);
  EXPECT_EQ(config.states.shape.channels, 128 + 2 * 12);
  EXPECT_TRUE(config.states.convolution_bias && !config.states.product_bias);
  EXPECT_EQ(config.states.most_step, INFINITY);
  json["time_step_limit"] = {0.25, {{"__float__", "Infinity"}}};
  EXPECT_EQ(ReadStatesOf(json).states.least_step, 0.25f);
  json["time_step_limit"] = {0.25, 0.125};
  EXPECT_THAT(StatesRefusal(json), HasSubstr("time_step_limit is 0.25 to 0.125"));
  json["time_step_limit"] = {0.25, "x"};
  EXPECT_THAT(StatesRefusal(json), HasSubstr("expected two numbers"));
  json = GraniteJson();
  json["mamba_d_head"] = 5;
  EXPECT_THAT(StatesRefusal(json), HasSubstr("8 heads of 5 values"));
}

TEST(ConfigStates, BadValuesAreNamed) {
  Json json = Lfm2Json();
  json["full_attn_idxs"] = Json::array();
  EXPECT_THAT(StatesRefusal(json, ErrorKind::kUnsupported), HasSubstr("no layer has attention"));
  json["full_attn_idxs"] = {3};
  EXPECT_THAT(StatesRefusal(json), HasSubstr("full_attn_idxs is 3"));
  json = Lfm2Json();
  json["conv_L_cache"] = 40;
  EXPECT_THAT(StatesRefusal(json), HasSubstr("convolution is 40"));
  json = QwenJson("qwen3_5_text");
  json["layer_types"] = {"linear_attention", "rwkv", "full_attention", "full_attention"};
  EXPECT_THAT(StatesRefusal(json, ErrorKind::kUnsupported), HasSubstr("\"rwkv\""));
  json = QwenJson("qwen3_5_text");
  json["linear_num_key_heads"] = 3;
  EXPECT_THAT(StatesRefusal(json), HasSubstr("3 key heads of a state do not divide 4"));
  json["linear_num_key_heads"] = 2147483647;
  json["linear_key_head_dim"] = 2147483647;
  EXPECT_NE(StatesRefusal(json), "");
}

}  // namespace
}  // namespace banyan
