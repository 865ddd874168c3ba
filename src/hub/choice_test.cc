// Which quantisation is taken.
#include "hub/choice.h"

#include <gtest/gtest.h>

namespace banyan {
namespace {

HubFile SizedFile(const std::string& path, std::int64_t bytes) {
  HubFile file;
  file.path = path;
  file.bytes = bytes;
  return file;
}

constexpr std::int64_t kGigabyte = 1'000'000'000;

TEST(Quantisation, OfFileNames) {
  EXPECT_EQ(QuantisationOf("Qwen3-4B-Q4_K_M.gguf"), "Q4_K_M");
  EXPECT_EQ(QuantisationOf("qwen2.5-0.5b-instruct-q4_k_m.gguf"), "Q4_K_M");
  EXPECT_EQ(QuantisationOf("UD/m-UD-Q4_K_XL-00001-of-00002.gguf"), "UD-Q4_K_XL");
  EXPECT_EQ(QuantisationOf("m.IQ2_XXS.gguf"), "IQ2_XXS");
  EXPECT_EQ(QuantisationOf("m-BF16.gguf"), "BF16");
  EXPECT_EQ(QuantisationOf("gpt-oss-20b-mxfp4.gguf"), "MXFP4");
  EXPECT_EQ(QuantisationOf("model_q8_0.gguf"), "Q8_0");
  EXPECT_EQ(QuantisationOf("TQ1_0/m-TQ1_0.gguf"), "TQ1_0");
  EXPECT_EQ(QuantisationOf("model.gguf"), "");
  EXPECT_EQ(QuantisationOf("model-Q4_0.bin"), "");
}

TEST(Choice, TheLargestQuantisedThatFits) {
  const std::vector<HubFile> files = {
      SizedFile("m-Q2_K.gguf", 2 * kGigabyte), SizedFile("m-Q4_K_M.gguf", 4 * kGigabyte),
      SizedFile("m-Q8_0.gguf", 8 * kGigabyte), SizedFile("m-F16.gguf", 16 * kGigabyte),
      SizedFile("mmproj-F16.gguf", kGigabyte), SizedFile("README.md", 10)};
  const auto choices = GgufChoices(files);
  ASSERT_EQ(choices.size(), 4u);
  EXPECT_EQ(BestChoice(choices, 100 * kGigabyte)->quantisation, "Q8_0");
  EXPECT_EQ(BestChoice(choices, 8 * kGigabyte)->quantisation, "Q4_K_M");
  EXPECT_EQ(BestChoice(choices, 4 * kGigabyte)->quantisation, "Q2_K");
  EXPECT_EQ(BestChoice(choices, kGigabyte), nullptr);
  EXPECT_EQ(NamedChoice(choices, "f16")->quantisation, "F16");
  EXPECT_EQ(NamedChoice(choices, "Q5_K_M"), nullptr);
  EXPECT_EQ(DescribeChoices(std::span(choices).first(2)), "F16 (16.0 GB), Q8_0 (8.0 GB)");
}

TEST(Choice, PartsAreOneModelAndNoneMayBeMissing) {
  const std::vector<HubFile> files = {SizedFile("a/m-Q8_0-00002-of-00002.gguf", 7),
                                      SizedFile("a/m-Q8_0-00001-of-00002.gguf", 5),
                                      SizedFile("m-Q4_0-00001-of-00003.gguf", 1)};
  const auto choices = GgufChoices(files);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].bytes, 12);
  EXPECT_EQ(choices[0].files.front(), "a/m-Q8_0-00001-of-00002.gguf");
  EXPECT_TRUE(choices[0].whole);
  EXPECT_FALSE(choices[1].whole);
  EXPECT_EQ(NamedChoice(choices, "Q4_0"), nullptr);
}

TEST(Choice, OfFilesThatAreNeverFetched) {
  for (const char* path : {"run.py", "pytorch_model.bin", "onnx/config.json", "model.pt", "a.sh",
                           "pytorch_model.bin.index.json"}) {
    EXPECT_FALSE(IsSmallModelFile(SizedFile(path, 10))) << path;
  }
  EXPECT_TRUE(IsSmallModelFile(SizedFile("tokenizer.json", 10)));
  EXPECT_FALSE(IsSmallModelFile(SizedFile("tokenizer.json", kGigabyte)));
}

}  // namespace
}  // namespace banyan
