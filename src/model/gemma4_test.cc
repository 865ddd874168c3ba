// Whole models of Gemma 4, small and mixture: both formats, cpu against reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "model/loaded_model_fixture.h"
#include "support/error_message.h"
#include "support/temp_directory.h"
#include "support/tiny_gemma4.h"

namespace banyan {
namespace {

using testing_support::ErrorMessage;
using testing_support::GgufWriter;
using testing_support::LargestDifference;
using testing_support::LoadedModel;
using testing_support::SomeTokens;
using testing_support::StoredMix;
using testing_support::TempDirectory;
using testing_support::TinyGemma4;

class Gemma4ModelTest : public ::testing::TestWithParam<bool> {
 protected:
  std::filesystem::path Gguf() const { return model_.WriteGguf(directory_.path() / "m.gguf"); }

  const TinyGemma4 model_{GetParam()};
  TempDirectory directory_;
};

TEST_P(Gemma4ModelTest, BothFormatsGiveTheSameBits) {
  LoadedModel gguf(Gguf(), "cpu");
  LoadedModel hf(model_.WriteHuggingFace(directory_.path() / "hf"), "cpu");
  EXPECT_EQ(gguf.config().attention, hf.config().attention);
  EXPECT_EQ(gguf.config().ffn_sizes, hf.config().ffn_sizes);
  EXPECT_EQ(gguf.config().kv_heads, hf.config().kv_heads);
  EXPECT_EQ(gguf.config().head_dim, hf.config().head_dim);
  EXPECT_EQ(gguf.config().layer_input_size, hf.config().layer_input_size);
  EXPECT_EQ(gguf.config().layer_input_vocab, hf.config().layer_input_vocab);
  const std::vector<TokenId> tokens = SomeTokens(90, TinyGemma4::kVocab);
  const std::vector<float> logits = hf.LastLogits(tokens);
  const auto [low, high] = std::ranges::minmax(logits);
  EXPECT_GT(high - low, 2.0f) << "degenerate logits";
  EXPECT_EQ(gguf.LastLogits(tokens), logits);
}

// Float32 sums of about 100 terms through few layers: 1e-4 of the logits' spread is ample.
TEST_P(Gemma4ModelTest, CpuAgreesWithReference) {
  const std::filesystem::path path = Gguf();
  LoadedModel cpu(path, "cpu", 2), reference(path, "reference");
  for (const int length : {1, 2, 41, 150}) {
    const std::vector<TokenId> tokens = SomeTokens(length, TinyGemma4::kVocab);
    const std::vector<float> expected = reference.LastLogits(tokens);
    const auto [low, high] = std::ranges::minmax(expected);
    EXPECT_LE(LargestDifference(expected, cpu.LastLogits(tokens)), 1e-4 * (high - low));
  }
}

TEST_P(Gemma4ModelTest, StepsDoNotChangeABit) {
  const std::filesystem::path path = Gguf();
  const std::vector<TokenId> tokens = SomeTokens(150, TinyGemma4::kVocab);
  for (const char* device : {"cpu", "reference"}) {
    LoadedModel model(path, device);
    EXPECT_EQ(model.LogitsOf(tokens, {5}, 48), model.LogitsOf(tokens, {149}, 150)) << device;
  }
}

// As quantisers mix types, with other types where rows are no whole blocks.
TEST_P(Gemma4ModelTest, StoredTypesGiveTheBitsOfTheirValues) {
  const TinyGemma4 wide(GetParam(), /*wide=*/true);
  const auto write = [&](const StoredMix& mix, bool values) {
    return wide.WriteStoredGguf(directory_.path() / (values ? "v.gguf" : "s.gguf"), mix, values);
  };
  const std::vector<TokenId> tokens = SomeTokens(30, TinyGemma4::kVocab);
  for (const StoredMix& mix :
       {StoredMix{DType::kQ4_K, DType::kQ6_K}, StoredMix{DType::kQ3_K, DType::kQ5_K}}) {
    SCOPED_TRACE(TraitsOf(mix.usual).name);
    const auto stored = write(mix, false), values = write(mix, true);
    for (const char* device : {"cpu", "reference"}) {
      EXPECT_EQ(LoadedModel(stored, device).LastLogits(tokens),
                LoadedModel(values, device).LastLogits(tokens));
    }
    LoadedModel mixed(stored, "cpu", 1, Precision::kMixed), plain(values, "cpu", 1);
    EXPECT_EQ(mixed.LogitsOf(tokens, {13}, 16), mixed.LastLogits(tokens));
    EXPECT_LT(mixed.weight_bytes(), 0.5 * static_cast<double>(plain.weight_bytes())) << "unpacked";
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, Gemma4ModelTest, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Mixture" : "Small");
});

std::string ConfigMessage(ErrorKind kind, const GgufWriter& writer) {
  const std::string bytes = writer.Bytes();
  return ErrorMessage(kind,
                      [&] { ConfigFromGguf(GgufFile(std::as_bytes(std::span(bytes)), "x.gguf")); });
}

TEST(Gemma4Gguf, ListsOfLayersAreChecked) {
  GgufWriter writer = TinyGemma4(true).GgufHeader();
  writer.Array<std::uint32_t>("gemma4.feed_forward_length", 4, std::vector<std::uint32_t>{80, 80});
  EXPECT_THAT(ConfigMessage(ErrorKind::kFormat, writer), testing::HasSubstr("x.gguf"));
  GgufWriter values = TinyGemma4(false).GgufHeader();
  values.Strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  EXPECT_THAT(ConfigMessage(ErrorKind::kNotFound, values),
              testing::HasSubstr("per_layer_token_embd.weight"));
}

}  // namespace
}  // namespace banyan
