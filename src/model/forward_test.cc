// The forward pass on whole models: oracles, both naming styles, cpu against reference, and what
// the loader refuses.
#include "model/forward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/files.h"
#include "base/json.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "model/loaded_model_fixture.h"
#include "model/weight_scales.h"
#include "plan/build.h"
#include "support/error_message.h"
#include "support/oracle_folders.h"
#include "support/temp_directory.h"
#include "support/tiny_model.h"
#include "support/tiny_quantised.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::ErrorMessage;
using testing_support::LargestDifference;
using testing_support::LoadedModel;
using testing_support::SomeTokens;
using testing_support::TempDirectory;
using testing_support::TinyShape;

// `spread` is the part of the logits' spread that the oracle's README allows on top of 1e-3.
void ExpectOracle(const fs::path& model, const fs::path& golden, double spread) {
  const Json oracle = ParseJson(ReadTextFile(golden, 64u << 20), golden.string());
  for (const char* device : {"cpu", "reference"}) {
    LoadedModel loaded(model, device);
    for (const Json& prompt : oracle.at("prompts")) {
      const auto expected = prompt.at("last_logits").get<std::vector<float>>();
      const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
      const auto found = loaded.LastLogits(prompt.at("ids").get<std::vector<TokenId>>());
      EXPECT_LE(LargestDifference(expected, found), 1e-3 + spread * (*high - *low))
          << model << " on " << device;
      const auto best = std::max_element(found.begin(), found.end()) - found.begin();
      EXPECT_EQ(best, prompt.at("greedy").at(0).get<int>()) << model << " on " << device;
    }
  }
}

TEST(ForwardOracle, FurtherFamilies) {
  const std::vector<fs::path> models = testing_support::OraclesOf("families");
  for (const fs::path& model : models) ExpectOracle(model, model / "golden.json", 0.0);
  EXPECT_GE(models.size(), 14u);
}

TEST(ForwardOracle, HuggingFaceModels) {
  const std::vector<fs::path> models = testing_support::OraclesOf("models");
  for (const fs::path& model : models) ExpectOracle(model, model / "golden.json", 0.0);
  EXPECT_GE(models.size(), 7u);
}

TEST(ForwardOracle, GgufModels) {
  const std::vector<fs::path> models = testing_support::OraclesOf("gguf", ".gguf");
  for (const fs::path& model : models) {
    ExpectOracle(model, fs::path(model).replace_extension(".json"), 0.005);
  }
  EXPECT_GE(models.size(), 14u);
}

class ForwardTest : public ::testing::TestWithParam<TinyShape> {
 protected:
  TempDirectory directory_;
};

// The same weights in both formats are the same matrices, so the bits are equal.
TEST_P(ForwardTest, BothFormatsGiveTheSameBits) {
  const TinyShape& shape = GetParam();
  LoadedModel gguf(testing_support::WriteTinyGguf(shape, directory_.path() / "m.gguf"), "cpu");
  LoadedModel hf(testing_support::WriteTinyHuggingFace(shape, directory_.path() / "hf"), "cpu");
  const std::vector<TokenId> tokens = SomeTokens(150, shape.vocab);
  EXPECT_EQ(gguf.config().attention, hf.config().attention);
  EXPECT_EQ(gguf.config().family, hf.config().family);
  EXPECT_EQ(gguf.LastLogits(tokens), hf.LastLogits(tokens));
}

// Float32 sums of about 100 terms through few layers: 1e-4 of the logits' spread is ample.
TEST_P(ForwardTest, CpuAgreesWithReference) {
  const TinyShape& shape = GetParam();
  const fs::path path = testing_support::WriteTinyGguf(shape, directory_.path() / "m.gguf");
  LoadedModel cpu(path, "cpu", 2), reference(path, "reference");
  for (const int length : {1, 2, 41, 150}) {
    const std::vector<TokenId> tokens = SomeTokens(length, shape.vocab);
    const std::vector<float> expected = reference.LastLogits(tokens);
    const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
    EXPECT_GT(*high - *low, 2.0f) << "degenerate logits";
    EXPECT_LE(LargestDifference(expected, cpu.LastLogits(tokens)), 1e-4 * (*high - *low));
  }
}

// Only rows whose logits are wanted go through the end of the last layer: which they are, in which
// order and how many does not change a bit, nor do earlier steps that want none.
TEST_P(ForwardTest, LogitsDoNotDependOnWhichAreWanted) {
  const TinyShape& shape = GetParam();
  const fs::path path = testing_support::WriteTinyGguf(shape, directory_.path() / "m.gguf");
  const std::vector<TokenId> tokens = SomeTokens(150, shape.vocab);
  for (const char* device : {"cpu", "reference"}) {
    LoadedModel model(path, device);
    std::vector<std::int32_t> all(150);
    std::iota(all.begin(), all.end(), 0);
    const std::vector<float> expected = model.LogitsOf(tokens, all, 150);
    const auto row_of = [&](const std::vector<float>& logits, int row) {
      const auto begin = logits.begin() + std::ptrdiff_t{row} * shape.vocab;
      return std::vector<float>(begin, begin + shape.vocab);
    };
    EXPECT_EQ(model.LastLogits(tokens), row_of(expected, 149)) << device;
    const std::vector<float> some = model.LogitsOf(tokens, {149, 3, 3, 70}, 150);
    EXPECT_EQ(row_of(some, 0), row_of(expected, 149)) << device;
    EXPECT_EQ(row_of(some, 1), row_of(expected, 3)) << device;
    EXPECT_EQ(row_of(some, 2), row_of(expected, 3)) << device;
    EXPECT_EQ(row_of(some, 3), row_of(expected, 70)) << device;
    const std::vector<float> in_steps = model.LogitsOf(tokens, {0, 5}, 48);
    EXPECT_EQ(row_of(in_steps, 0), row_of(expected, 144)) << device;
    EXPECT_EQ(row_of(in_steps, 1), row_of(expected, 149)) << device;
  }
}

// What lies behind the windows of all layers cannot be seen; what lies within is.
TEST(ForwardWindow, KeysBeyondAllWindowsDoNotCount) {
  const TempDirectory directory;
  const TinyShape shape{.family = "mistral", .layers = 2, .window = 40, .seed = 3};
  LoadedModel model(testing_support::WriteTinyGguf(shape, directory.path() / "m.gguf"), "cpu");
  std::vector<TokenId> tokens = SomeTokens(120, shape.vocab);
  const std::vector<float> before = model.LastLogits(tokens);
  std::vector<TokenId> far = tokens;
  far[119 - 2 * 39 - 1] ^= 1;  // two layers reach back 39 keys each
  EXPECT_EQ(model.LastLogits(far), before);
  std::vector<TokenId> near = tokens;
  near[119 - 2 * 39] ^= 1;
  EXPECT_NE(model.LastLogits(near), before);
}

TEST(ForwardExperts, BlocksAndScalesGiveTheBitsOfTheirValues) {
  const TempDirectory directory;
  const TinyShape shape{.family = "gpt_oss", .hidden = 64, .ffn = 32, .window = 24};
  const auto [blocks, plain] = testing_support::WriteTinyMxfp4(shape, directory.path());
  const std::vector<TokenId> tokens = SomeTokens(70, shape.vocab);
  LoadedModel of_blocks(blocks, "cpu"), of_values(plain, "cpu");
  EXPECT_EQ(of_blocks.LastLogits(tokens), of_values.LastLogits(tokens));
}

// Codes and scales are the weights that they stand for: as float32, and rounded to bf16 where that
// is what is computed with.
TEST(ForwardScaled, CodesAndScalesGiveTheBitsOfTheirValues) {
  using testing_support::TinyScales;
  for (const std::string family : {"llama", "phi3", "qwen3_moe"}) {
    const TinyShape shape{.family = family};
    const std::vector<TokenId> tokens = SomeTokens(40, shape.vocab);
    for (const TinyScales scales : {TinyScales::kOfMatrix, TinyScales::kOfRow, TinyScales::kOfBlock,
                                    TinyScales::kOfRowInt8}) {
      const TempDirectory directory;
      const auto written = testing_support::WriteTinyScaled(shape, scales, directory.path());
      for (const char* device : {"cpu", "reference"}) {
        SCOPED_TRACE(family + ", scales " + std::to_string(static_cast<int>(scales)) + ", " +
                     device);
        EXPECT_EQ(LoadedModel(written.codes, device).LastLogits(tokens),
                  LoadedModel(written.f32, device).LastLogits(tokens));
        EXPECT_EQ(LoadedModel(written.codes, device, 2, Precision::kMixed).LastLogits(tokens),
                  LoadedModel(written.bf16, device, 2, Precision::kMixed).LastLogits(tokens));
      }
    }
  }
}

// A model for images and text holds the decoder's tensors under other names.
TEST(ForwardNames, TextPartOfAModelForImages) {
  const TempDirectory directory;
  const TinyShape shape{
      .family = "gemma3_text", .kv_heads = 1, .head_dim = 16, .window = 24, .tied = true};
  LoadedModel plain(testing_support::WriteTinyHuggingFace(shape, directory.path() / "plain"),
                    "cpu");
  const std::vector<TokenId> tokens = SomeTokens(50, shape.vocab);
  for (const std::string root : {"language_model.model.", "model.language_model."}) {
    const fs::path path = testing_support::WriteTinyHuggingFace(shape, directory.path() / "parts");
    std::ofstream(path / "config.json") << R"({"model_type": "gemma3", "text_config": )"
                                        << testing_support::TinyConfigJson(shape) << "}";
    testing_support::SafetensorsWriter writer;
    const testing_support::TinyWeights weights(shape);
    for (const testing_support::TinyTensor& tensor : weights.tensors()) {
      std::vector<float> values = tensor.values;
      for (float& value : values) value -= tensor.minus_one_in_hf ? 1.0f : 0.0f;
      writer.TensorF32(root + tensor.hf_name.substr(6), tensor.shape, values);
    }
    writer.Write(path / "model.safetensors");
    LoadedModel parts(path, "cpu");
    EXPECT_EQ(parts.LastLogits(tokens), plain.LastLogits(tokens)) << root;
  }
}

TEST(ForwardNames, SharedBlockOfGranite4) {
  const TempDirectory directory;
  const TinyShape shape{.family = "granitemoehybrid", .tied = true};
  const fs::path path = testing_support::WriteTinyHuggingFace(shape, directory.path() / "hf");
  LoadedModel cpu(path, "cpu"), reference(path, "reference");
  const std::vector<TokenId> tokens = SomeTokens(50, shape.vocab);
  const std::vector<float> expected = reference.LastLogits(tokens);
  const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
  EXPECT_GT(*high - *low, 1.0f);
  EXPECT_LE(LargestDifference(expected, cpu.LastLogits(tokens)), 1e-4 * (*high - *low));
}

// The cap bounds logits and keeps their order.
TEST(ForwardCap, LogitsStayBelowIt) {
  const TempDirectory directory;
  const TinyShape shape{
      .family = "gemma3_text", .kv_heads = 1, .head_dim = 16, .window = 24, .tied = true};
  const fs::path path = testing_support::WriteTinyHuggingFace(shape, directory.path() / "hf");
  const std::vector<TokenId> tokens = SomeTokens(30, shape.vocab);
  const std::vector<float> before = LoadedModel(path, "cpu").LastLogits(tokens);
  std::string config = testing_support::TinyConfigJson(shape);
  std::ofstream(path / "config.json") << R"({"final_logit_softcapping": 3.0,)" + config.substr(1);
  for (const char* device : {"cpu", "reference"}) {
    const std::vector<float> capped = LoadedModel(path, device).LastLogits(tokens);
    for (size_t i = 0; i < before.size(); ++i) {
      ASSERT_NEAR(capped[i], 3.0 * std::tanh(before[i] / 3.0), 1e-4) << device;
    }
  }
}

std::string ShapeName(const ::testing::TestParamInfo<TinyShape>& info) {
  return info.param.family + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(
    Families, ForwardTest,
    ::testing::Values(TinyShape{.family = "llama", .tied = true},
                      TinyShape{.family = "llama", .kv_heads = 4},
                      TinyShape{.family = "mistral", .head_dim = 20, .window = 40},
                      TinyShape{.family = "qwen2"},
                      TinyShape{.family = "qwen3", .kv_heads = 1, .head_dim = 16},
                      TinyShape{.family = "phi3", .window = 40}, TinyShape{.family = "olmo2"},
                      TinyShape{.family = "olmo3", .layers = 5, .window = 40},
                      TinyShape{.family = "gemma3_text",
                                .layers = 3,
                                .kv_heads = 1,
                                .head_dim = 16,
                                .window = 24,
                                .theta = 50000.0,
                                .tied = true},
                      TinyShape{.family = "smollm3", .layers = 4, .tied = true},
                      TinyShape{.family = "granite", .tied = true},
                      TinyShape{.family = "ministral3", .head_dim = 16},
                      TinyShape{.family = "qwen3_moe", .layers = 3, .head_dim = 16},
                      TinyShape{.family = "gpt_oss", .layers = 3, .window = 24}),
    ShapeName);

// The model with one tensor's values changed.
std::string MessageWith(const TinyShape& shape, const std::string& name, const auto& change) {
  const TempDirectory directory;
  testing_support::GgufWriter writer = testing_support::TinyGgufHeader(shape);
  const testing_support::TinyWeights weights(shape);
  for (testing_support::TinyTensor tensor : weights.tensors()) {
    if (tensor.gguf_name.empty()) continue;
    if (tensor.gguf_name == name) change(tensor);
    writer.TensorF32(tensor.gguf_name, tensor.shape, tensor.values);
  }
  writer.Write(directory.path() / "m.gguf");
  return ErrorMessage(ErrorKind::kFormat, [&] { LoadedModel(directory.path() / "m.gguf", "cpu"); });
}

TEST(ForwardErrors, SinksAndExpertsAreChecked) {
  const TinyShape shape{.family = "gpt_oss", .window = 24};
  using testing_support::TinyTensor;
  EXPECT_THAT(MessageWith(shape, "blk.1.attn_sinks.weight",
                          [](TinyTensor& tensor) { tensor.values[1] = std::nanf(""); }),
              HasSubstr("'blk.1.attn_sinks.weight' has values that are not finite"));
  const auto one_less = [](TinyTensor& tensor) {
    tensor.values.resize(tensor.values.size() / static_cast<size_t>(tensor.shape[0]) *
                         static_cast<size_t>(tensor.shape[0] - 1));
    --tensor.shape[0];
  };
  for (const char* name :
       {"ffn_gate_inp.weight", "ffn_gate_inp.bias", "ffn_gate_exps.weight", "ffn_up_exps.bias",
        "ffn_down_exps.weight", "ffn_down_exps.bias", "attn_sinks.weight"}) {
    EXPECT_THAT(MessageWith(shape, "blk.0." + std::string(name), one_less),
                AllOf(HasSubstr(name), HasSubstr("expected shape")));
  }
}

TEST(ForwardErrors, MissingTensor) {
  const TempDirectory directory;
  const TinyShape shape;
  testing_support::GgufWriter writer = testing_support::TinyGgufHeader(shape);
  const testing_support::TinyWeights weights(shape);
  for (const testing_support::TinyTensor& tensor : weights.tensors()) {
    if (tensor.gguf_name == "blk.1.attn_k.weight") continue;
    writer.TensorF32(tensor.gguf_name, tensor.shape, tensor.values);
  }
  writer.Write(directory.path() / "m.gguf");
  EXPECT_THAT(
      ErrorMessage(ErrorKind::kNotFound, [&] { LoadedModel(directory.path() / "m.gguf", "cpu"); }),
      HasSubstr("blk.1.attn_k.weight"));
}

// Weights that were left out are not the embedding's unless the configuration says so.
TEST(ForwardErrors, MissingLogitsNameTheTensorAndTheSetting) {
  const TempDirectory directory;
  const TinyShape tied{.tied = true};
  const fs::path model = testing_support::WriteTinyHuggingFace(tied, directory.path() / "hf");
  EXPECT_NO_THROW(LoadedModel(model, "cpu"));
  for (const char* setting : {"\"tie_word_embeddings\":false,", ""}) {
    std::string config = testing_support::TinyConfigJson(tied);
    const std::string said = "\"tie_word_embeddings\":true,";
    config.replace(config.find(said), said.size(), setting);
    std::ofstream(model / "config.json") << config;
    const std::string message =
        ErrorMessage(ErrorKind::kNotFound, [&] { LoadedModel(model, "cpu"); });
    EXPECT_THAT(message, HasSubstr("lm_head.weight"));
    EXPECT_THAT(message, HasSubstr("tie_word_embeddings"));
    EXPECT_THAT(message, HasSubstr(model.string()));
  }
}

TEST(ForwardErrors, WrongShapeShowsExpectedAndFound) {
  const TempDirectory directory;
  const TinyShape shape;
  testing_support::GgufWriter writer = testing_support::TinyGgufHeader(shape);
  const testing_support::TinyWeights weights(shape);
  for (testing_support::TinyTensor tensor : weights.tensors()) {
    if (tensor.gguf_name == "blk.0.ffn_down.weight") std::swap(tensor.shape[0], tensor.shape[1]);
    writer.TensorF32(tensor.gguf_name, tensor.shape, tensor.values);
  }
  writer.Write(directory.path() / "m.gguf");
  const std::string message =
      ErrorMessage(ErrorKind::kFormat, [&] { LoadedModel(directory.path() / "m.gguf", "cpu"); });
  EXPECT_THAT(message, HasSubstr("blk.0.ffn_down.weight"));
  EXPECT_THAT(message, HasSubstr("48"));
  EXPECT_THAT(message, HasSubstr("80"));
}

TEST(ForwardErrors, UnsupportedArchitectureNamesTheSupportedOnes) {
  const TempDirectory directory;
  const TinyShape shape{.family = "mamba"};
  const fs::path gguf = testing_support::WriteTinyGguf(shape, directory.path() / "m.gguf");
  const fs::path hf = testing_support::WriteTinyHuggingFace(shape, directory.path() / "hf");
  for (const fs::path& path : {gguf, hf}) {
    const std::string message =
        ErrorMessage(ErrorKind::kUnsupported, [&] { LoadedModel(path, "cpu"); });
    EXPECT_THAT(message, HasSubstr("mamba"));
    EXPECT_THAT(message, HasSubstr("qwen3"));
  }
}

}  // namespace
}  // namespace banyan
