// What configurations of Gemma 4 become: the small ones with inputs of layers, the dense large one
// whose keys are values, the mixture.
#include "model/config_gemma4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "base/json.h"
#include "model/rope.h"
#include "support/error_message.h"

namespace banyan {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::ErrorMessage;

// Seven layers, the third and the last without a window.
Json Gemma4Json() {
  return {{"model_type", "gemma4_text"},
          {"vocab_size", 300},
          {"hidden_size", 64},
          {"num_hidden_layers", 7},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {"global_head_dim", 32},
          {"intermediate_size", 128},
          {"sliding_window", 24},
          {"hidden_size_per_layer_input", 0},
          {"layer_types",
           {"sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
            "sliding_attention", "sliding_attention", "full_attention"}}};
}

ModelConfig ReadGemma4Config(const Json& json) {
  return ConfigFromHuggingFace(json.dump(), "", "m");
}

std::vector<int> OwnersOf(const ModelConfig& config) {
  std::vector<int> layers;
  for (const LayerAttention& layer : config.attention) layers.push_back(layer.keys_of);
  return layers;
}

TEST(Gemma4, HeadsDifferByKindOfLayer) {
  const ModelConfig config = ReadGemma4Config(Gemma4Json());
  EXPECT_EQ(config.KeysOf(0), (KvHeads{2, 16}));
  EXPECT_EQ(config.KeysOf(2), (KvHeads{2, 32}));
  EXPECT_EQ(config.attention_scale, 1.0f);
  EXPECT_TRUE(config.value_norm && config.layer_scales && !config.norms_minus_one);
  EXPECT_EQ(config.layer_input_size, 0);
  EXPECT_THAT(OwnersOf(config), Each(-1));
  const KvShape shape = KvShapeOf(config);
  EXPECT_EQ(shape.layers, 7);
  EXPECT_EQ(shape.Of(6), (KvHeads{2, 32}));
}

TEST(Gemma4, ProportionalRopeTurnsTheFirstPairsOfAWholeHead) {
  const ModelConfig config = ReadGemma4Config(Gemma4Json());
  const RopeConfig& rope = config.ropes.at(0);
  EXPECT_EQ(rope.kind, RopeKind::kProportional);
  EXPECT_EQ(rope.rotary_dim, 32);
  EXPECT_EQ(rope.rotated_pairs, 4);
  const RopeTable table = MakeRopeTable(rope, config.context_length);
  ASSERT_EQ(table.inverse_frequency.size(), 16u);
  EXPECT_FLOAT_EQ(table.inverse_frequency[0], 1.0f);
  EXPECT_FLOAT_EQ(table.inverse_frequency[2], 1.0f / std::pow(1e6f, 4.0f / 32.0f));
  EXPECT_THAT(std::span(table.inverse_frequency).subspan(4), Each(0.0f));
  EXPECT_EQ(config.ropes.at(1).rotary_dim, 16);
}

// Those of the last layer of their kind before them; such layers have no keys and a wide block.
TEST(Gemma4, LastLayersReadTheKeysOfEarlierOnes) {
  Json json = Gemma4Json();
  json["num_kv_shared_layers"] = 3;
  json["use_double_wide_mlp"] = true;
  const ModelConfig config = ReadGemma4Config(json);
  EXPECT_THAT(OwnersOf(config), ElementsAre(-1, -1, -1, -1, 3, 3, 2));
  EXPECT_THAT(config.ffn_sizes, ElementsAre(128, 128, 128, 128, 256, 256, 256));
  EXPECT_EQ(KvShapeOf(config).layers, 4);
  EXPECT_EQ(KvLayerOf(config, 6), 2);
  EXPECT_EQ(KvLayerOf(config, 4), 3);
  json["num_kv_shared_layers"] = 5;  // only layers with a window are left
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [&] { ReadGemma4Config(json); }),
              HasSubstr("layer 2"));
}

TEST(Gemma4, KeysAreValuesInLayersWithoutAWindow) {
  Json json = Gemma4Json();
  json["attention_k_eq_v"] = true;
  json["num_global_key_value_heads"] = 1;
  const ModelConfig config = ReadGemma4Config(json);
  EXPECT_FALSE(config.Attention(0).keys_are_values);
  EXPECT_TRUE(config.Attention(2).keys_are_values);
  EXPECT_EQ(config.KeysOf(2), (KvHeads{1, 32}));
  EXPECT_EQ(config.KeysOf(0), (KvHeads{2, 16}));
}

TEST(Gemma4, TransformersNamesLayersThatDiffer) {
  Json json = Gemma4Json();
  json.erase("global_head_dim");
  json["per_layer_config"] = {{"2", {{"head_dim", 48}, {"num_key_value_heads", 1}}},
                              {"6", {{"head_dim", 48}, {"num_key_value_heads", 1}}}};
  const ModelConfig config = ReadGemma4Config(json);
  EXPECT_EQ(config.KeysOf(2), (KvHeads{1, 48}));
  EXPECT_EQ(config.KeysOf(3), (KvHeads{2, 16}));
  EXPECT_EQ(config.ropes.at(0).rotary_dim, 48);
}

TEST(Gemma4, ExpertsStandBesideTheBlock) {
  Json json = Gemma4Json();
  json["enable_moe_block"] = true;
  json["num_experts"] = 8;
  json["top_k_experts"] = 2;
  json["moe_intermediate_size"] = 24;
  const ModelConfig config = ReadGemma4Config(json);
  EXPECT_TRUE(config.experts.beside == BlockBeside::kNormed && config.HasExperts(0) &&
              config.HasBlock(0));
  EXPECT_EQ(config.experts.rule.chosen, 2);
  EXPECT_EQ(config.experts.rule.gate.function, Gate::kGeluTanh);
  EXPECT_EQ(config.experts.inner_size, 24);
}

TEST(Gemma4, ImagesMaySeeBothWaysAndTextMayNot) {
  Json json = Gemma4Json();
  json["use_bidirectional_attention"] = "vision";
  ReadGemma4Config(json);
  json["use_bidirectional_attention"] = "all";
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { ReadGemma4Config(json); }),
              HasSubstr("use_bidirectional_attention"));
}

}  // namespace
}  // namespace banyan
