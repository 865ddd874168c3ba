// Every tensor that the loader wants of layers of other kinds is there, in its shape.
#include "load/random_tensors.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/kernels.h"
#include "model/weights.h"

namespace banyan {
namespace {

struct Sizes {
  const char* name;
  const char* config;  // config.json
};

class RandomTensorsOf : public ::testing::TestWithParam<Sizes> {};

TEST_P(RandomTensorsOf, AreWhatTheLoaderReads) {
  const ModelConfig config = ConfigFromHuggingFace(GetParam().config, "", GetParam().name);
  const auto kernels = MakeKernels("cpu", {.precision = Precision::kMixed, .threads = 1});
  for (const DType type : {DType::kBF16, DType::kQ8_0, DType::kQ4_0}) {
    const RandomTensors tensors = MakeRandomTensors(config, type);
    const ModelWeights weights =
        LoadWeights(config, tensors.store, TensorNaming::kHuggingFace, *kernels, {});
    EXPECT_EQ(weights.layers.size(), static_cast<size_t>(config.layers));
    EXPECT_GT(weights.parameters, std::int64_t{config.vocab_size} * config.hidden_size);
  }
}

constexpr Sizes kSizes[] = {
    {"states",
     R"({"model_type": "qwen3_5_text", "vocab_size": 128, "hidden_size": 64,
      "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
      "intermediate_size": 96, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
      "linear_key_head_dim": 16, "linear_value_head_dim": 16})"},
    {"states and experts",
     R"({"model_type": "qwen3_5_moe_text", "vocab_size": 128, "hidden_size": 64,
      "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
      "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "num_experts": 4,
      "num_experts_per_tok": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
      "linear_key_head_dim": 16, "linear_value_head_dim": 16})"},
    {"inputs of layers, keys of other layers",
     R"({"model_type": "gemma4_text", "vocab_size": 128, "hidden_size": 64,
      "num_hidden_layers": 12, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
      "global_head_dim": 64, "intermediate_size": 96, "sliding_window": 16,
      "hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": 128,
      "num_kv_shared_layers": 6, "final_logit_softcapping": 30.0, "tie_word_embeddings": true})"},
    {"keys that are values",
     R"({"model_type": "gemma4_text", "vocab_size": 128, "hidden_size": 64,
      "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
      "global_head_dim": 64, "num_global_key_value_heads": 1, "attention_k_eq_v": true,
      "intermediate_size": 96, "sliding_window": 16, "hidden_size_per_layer_input": 0,
      "final_logit_softcapping": 30.0, "tie_word_embeddings": true})"},
};

INSTANTIATE_TEST_SUITE_P(Kinds, RandomTensorsOf, ::testing::ValuesIn(kSizes),
                         [](const auto& kind) { return std::to_string(kind.index); });

}  // namespace
}  // namespace banyan
