// Encoders against what Transformers computed from the same weights.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "banyan/encoder.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "retrieve/encoder_fixture.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using encodertest::LargestDifference;
using encodertest::LoadOn;
using encodertest::Texts;

const fs::path kOracles = fs::path(BANYAN_GOLDEN_DIR) / "encoders";

void ExpectOracle(const Embedding& found, const Json& oracle, const std::string& what) {
  const char* dense = oracle.contains("dense_cls") ? "dense_cls" : "dense_mean";
  EXPECT_LE(LargestDifference(found.dense, oracle.at(dense).get<std::vector<double>>()), 1e-4)
      << what;
  if (!oracle.contains("sparse")) return;
  EXPECT_EQ(found.sparse.size(), oracle.at("sparse").size()) << what;
  for (const auto& [token, weight] : found.sparse) {
    const std::string key = std::to_string(token);
    ASSERT_TRUE(oracle.at("sparse").contains(key)) << what << ", token " << token;
    EXPECT_NEAR(weight, oracle.at("sparse").at(key).get<double>(), 1e-4) << what;
  }
  ASSERT_EQ(found.colbert.size(), oracle.at("colbert").size()) << what;
  for (size_t i = 0; i < found.colbert.size(); ++i) {
    const auto expected = oracle.at("colbert").at(i).get<std::vector<double>>();
    EXPECT_LE(LargestDifference(found.colbert[i], expected), 1e-4) << what;
  }
}

TEST(EncoderOracle, TinyModels) {
  if (!fs::exists(kOracles)) GTEST_SKIP() << "no oracles at " << kOracles;
  for (const char* name : {"bert-mean", "xlmr-m3", "xlmr-reranker"}) {
    const fs::path file = kOracles / name / "golden.json";
    const Json oracles = ParseJson(ReadTextFile(file, 64u << 20), file.string());
    Texts texts;
    for (const Json& oracle : oracles) {
      texts.push_back(oracle.at("ids").get<std::vector<TokenId>>());
    }
    for (const std::string& device : encodertest::Devices()) {
      const auto encoder = LoadOn(device, kOracles / name);
      const std::string what = std::string(name) + " on " + device;
      if (encoder->reranks()) {
        const std::vector<float> logits = encoder->Rerank(texts);
        for (size_t i = 0; i < texts.size(); ++i) {
          EXPECT_NEAR(logits[i], oracles.at(i).at("logit").get<double>(), 1e-4) << what;
        }
        continue;
      }
      const std::vector<Embedding> found = encoder->Embed(texts);
      for (size_t i = 0; i < texts.size(); ++i) ExpectOracle(found[i], oracles.at(i), what);
    }
  }
}

}  // namespace
}  // namespace banyan
