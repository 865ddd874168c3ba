// Encoders end to end: against a plain computation, in both formats, and with the same bits in
// every company; last, against what Transformers gave.
#include "banyan/encoder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "banyan/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/work_budget.h"
#include "retrieve/encoder_fixture.h"
#include "support/error_message.h"
#include "support/oracle_folders.h"
#include "support/temp_directory.h"
#include "support/tiny_encoder.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using encodertest::Devices;
using encodertest::LargestDifference;
using encodertest::LoadOn;
using encodertest::Texts;
using ::testing::HasSubstr;
using testing_support::ErrorMessage;
using testing_support::PlainEncoder;
using testing_support::TempDirectory;
using testing_support::TinyEncoderShape;

Texts RandomTexts(const std::vector<int>& lengths, int vocab) {
  Texts texts;
  std::mt19937 random(11);
  for (const int length : lengths) {
    texts.emplace_back();
    for (int i = 0; i < length; ++i) {
      texts.back().push_back(static_cast<TokenId>(random() % static_cast<unsigned>(vocab)));
    }
  }
  return texts;
}

const TinyEncoderShape kBert;
const TinyEncoderShape kM3{.family = "xlm-roberta", .heads = 3, .more_heads = true, .seed = 2};
const TinyEncoderShape kReranker{.family = "xlm-roberta", .reranker = true, .seed = 3};
const std::vector<int> kLengths = {1, 2, 15, 16, 17, 40, 129, 300};

TEST(Encoder, MeanOfBertAgreesWithThePlainComputation) {
  const TempDirectory directory;
  const fs::path path = testing_support::WriteTinyEncoder(kBert, directory.path());
  const PlainEncoder plain(kBert);
  const Texts texts = RandomTexts(kLengths, kBert.vocab);
  for (const std::string& device : Devices()) {
    const auto encoder = LoadOn(device, path);
    EXPECT_EQ(encoder->dimensions(), 48);
    EXPECT_EQ(encoder->context_length(), 300);
    EXPECT_FALSE(encoder->has_sparse() || encoder->has_colbert() || encoder->reranks());
    const std::vector<Embedding> found = encoder->Embed(texts);
    ASSERT_EQ(found.size(), texts.size());
    for (size_t t = 0; t < texts.size(); ++t) {
      const auto expected = PlainEncoder::Normalized(PlainEncoder::Mean(plain.Run(texts[t])));
      EXPECT_LE(LargestDifference(found[t].dense, expected), 2e-6) << device << ", text " << t;
      EXPECT_TRUE(found[t].sparse.empty() && found[t].colbert.empty());
    }
  }
}

TEST(Encoder, HeadsOfM3AgreeWithThePlainComputation) {
  const TempDirectory directory;
  const fs::path path = testing_support::WriteTinyEncoder(kM3, directory.path());
  const PlainEncoder plain(kM3);
  const Texts texts = RandomTexts(kLengths, kM3.vocab);
  for (const std::string& device : Devices()) {
    const auto encoder = LoadOn(device, path);
    EXPECT_TRUE(encoder->has_sparse() && encoder->has_colbert() && encoder->embeds());
    const std::vector<Embedding> found = encoder->Embed(texts);
    size_t weights = 0;
    for (size_t t = 0; t < texts.size(); ++t) {
      const PlainEncoder::Rows rows = plain.Run(texts[t]);
      EXPECT_LE(LargestDifference(found[t].dense, PlainEncoder::Normalized(rows[0])), 2e-6);
      std::map<TokenId, double> sparse;
      for (size_t i = 0; i < rows.size(); ++i) {
        const double weight = plain.Linear("sparse_linear", rows[i])[0];
        const TokenId token = texts[t][i];
        if (token > 2 && weight > 0.0) sparse[token] = std::max(sparse[token], weight);
      }
      ASSERT_EQ(found[t].sparse.size(), sparse.size()) << device << ", text " << t;
      for (const auto& [token, weight] : found[t].sparse) {
        EXPECT_NEAR(weight, sparse.at(token), 1e-5) << device << ", text " << t;
      }
      weights += sparse.size();
      ASSERT_EQ(found[t].colbert.size(), rows.size() - 1);
      for (size_t i = 1; i < rows.size(); ++i) {
        const auto expected = PlainEncoder::Normalized(plain.Linear("colbert_linear", rows[i]));
        ASSERT_LE(LargestDifference(found[t].colbert[i - 1], expected), 5e-6) << device;
      }
    }
    EXPECT_GT(weights, 50u);
  }
}

TEST(Encoder, RerankersAgreeWithThePlainComputation) {
  const TempDirectory directory;
  const fs::path path = testing_support::WriteTinyEncoder(kReranker, directory.path());
  const PlainEncoder plain(kReranker);
  const Texts texts = RandomTexts(kLengths, kReranker.vocab);
  for (const std::string& device : Devices()) {
    const std::vector<float> found = LoadOn(device, path)->Rerank(texts);
    ASSERT_EQ(found.size(), texts.size());
    for (size_t t = 0; t < texts.size(); ++t) {
      PlainEncoder::Row inner = plain.Linear("classifier.dense", plain.Run(texts[t])[0]);
      for (double& v : inner) v = std::tanh(v);
      EXPECT_NEAR(found[t], plain.Linear("classifier.out_proj", inner)[0], 5e-6) << device;
    }
  }
}

TEST(Encoder, PoolingAsItsFileSays) {
  const TempDirectory directory;
  const fs::path path = testing_support::WriteTinyEncoder(kBert, directory.path());
  directory.Write("1_Pooling/config.json",
                  R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false})");
  const Texts texts = RandomTexts({31}, kBert.vocab);
  const auto found = LoadOn("cpu", path)->Embed(texts);
  const auto expected = PlainEncoder::Normalized(PlainEncoder(kBert).Run(texts[0])[0]);
  EXPECT_LE(LargestDifference(found[0].dense, expected), 2e-6);
}

// The same weights in both formats are the same matrices, so the bits are equal.
TEST(Encoder, BothFormatsGiveTheSameBits) {
  const TempDirectory directory;
  const TinyEncoderShape xlmr{.family = "xlm-roberta", .seed = 4};
  for (const TinyEncoderShape& shape : {kBert, xlmr}) {
    const auto hf =
        LoadOn("cpu", testing_support::WriteTinyEncoder(shape, directory.path() / shape.family));
    const fs::path file = directory.path() / (shape.family + ".gguf");
    const auto gguf = LoadOn("cpu", testing_support::WriteTinyEncoderGguf(shape, file));
    EXPECT_EQ(gguf->context_length(), hf->context_length());
    const Texts texts = RandomTexts({5, 130}, shape.vocab);
    for (size_t t = 0; t < texts.size(); ++t) {
      EXPECT_EQ(gguf->Embed(texts)[t].dense, hf->Embed(texts)[t].dense) << shape.family;
    }
  }
  const auto hf =
      LoadOn("cpu", testing_support::WriteTinyEncoder(kReranker, directory.path() / "rerank"));
  const auto gguf = LoadOn(
      "cpu", testing_support::WriteTinyEncoderGguf(kReranker, directory.path() / "rerank.gguf"));
  const Texts texts = RandomTexts({9, 77}, kReranker.vocab);
  EXPECT_EQ(gguf->Rerank(texts), hf->Rerank(texts));
}

void ExpectSame(const Embedding& found, const Embedding& expected, const std::string& what) {
  EXPECT_EQ(found.dense, expected.dense) << what;
  EXPECT_EQ(found.sparse, expected.sparse) << what;
  EXPECT_EQ(found.colbert, expected.colbert) << what;
}

TEST(Encoder, ATextHasTheSameBitsAloneAndAmongOthers) {
  const TempDirectory directory;
  const fs::path path = testing_support::WriteTinyEncoder(kM3, directory.path() / "m3");
  const fs::path ranks = testing_support::WriteTinyEncoder(kReranker, directory.path() / "rerank");
  const Texts texts = RandomTexts({300, 1, 17, 64, 128, 129, 2, 250, 16, 33}, kM3.vocab);
  for (const std::string& device : Devices()) {
    const auto one = LoadOn(device, path, 1);
    const auto reranker = LoadOn(device, ranks, 1);
    std::vector<Embedding> alone;
    std::vector<float> logits;
    for (const auto& text : texts) {
      alone.push_back(one->Embed(std::span(&text, 1)).front());
      logits.push_back(reranker->Rerank(std::span(&text, 1)).front());
    }
    for (const int threads : {1, 3}) {
      const auto encoder = LoadOn(device, path, threads);
      const auto several = LoadOn(device, ranks, threads);
      for (const int rows : {1, 100, 0}) {
        EmbedOptions options;
        options.batch_rows = rows;
        const std::vector<Embedding> found = encoder->Embed(texts, options);
        for (size_t t = 0; t < texts.size(); ++t) {
          ExpectSame(found[t], alone[t],
                     fmt::format("{}, {} threads, {} rows, text {}", device, threads, rows, t));
        }
        EXPECT_EQ(several->Rerank(texts, rows), logits) << device;
      }
      EmbedOptions dense_alone;
      dense_alone.sparse = dense_alone.colbert = false;  // only the first rows end the last layer
      const std::vector<Embedding> found = encoder->Embed(texts, dense_alone);
      for (size_t t = 0; t < texts.size(); ++t) EXPECT_EQ(found[t].dense, alone[t].dense) << device;
    }
  }
}

TEST(Encoder, ManyThreadsMayAskAtOnce) {
  const TempDirectory directory;
  const auto encoder = LoadOn("cpu", testing_support::WriteTinyEncoder(kBert, directory.path()));
  const Texts texts = RandomTexts({20, 50}, kBert.vocab);
  const auto expected = encoder->Embed(texts);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t i = 0; i < wrong.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 10; ++round) {
        const size_t t = (i + static_cast<size_t>(round)) % 2;
        const auto found = encoder->Embed(std::span(&texts[t], 1));
        if (found.front().dense != expected[t].dense) ++wrong[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(EncoderErrors, TextsThatItCannotTake) {
  const TempDirectory directory;
  const auto encoder = LoadOn("cpu", testing_support::WriteTinyEncoder(kBert, directory.path()));
  const auto message = [&](ErrorKind kind, const std::vector<TokenId>& text) {
    return ErrorMessage(kind, [&] { encoder->Embed(Texts{{1, 2}, text}); });
  };
  EXPECT_THAT(message(ErrorKind::kInput, {}), HasSubstr("text 1: the text is empty"));
  EXPECT_THAT(message(ErrorKind::kInput, {1, 90}), HasSubstr("token id 90"));
  EXPECT_THAT(message(ErrorKind::kInput, {-1}), HasSubstr("token id -1"));
  EXPECT_THAT(message(ErrorKind::kLimit, std::vector<TokenId>(301, 1)), HasSubstr("300"));
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { encoder->Rerank(Texts{{1}}); }),
              HasSubstr("no reranker"));
  EXPECT_TRUE(encoder->Embed(Texts{}).empty());
}

TEST(EncoderErrors, EachKindOfModelIsToldFromTheOther) {
  const TempDirectory directory;
  const fs::path hf = testing_support::WriteTinyEncoder(kReranker, directory.path() / "hf");
  const fs::path gguf = testing_support::WriteTinyEncoderGguf(kBert, directory.path() / "m.gguf");
  for (const fs::path& path : {hf, gguf}) {
    EXPECT_TRUE(Encoder::IsEncoder(path.string()));
    LoadOptions options;
    options.model = path.string();
    EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { Model::Load(options); }),
                HasSubstr("is an encoder"));
  }
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { LoadOn("cpu", hf)->Embed(Texts{{1}}); }),
              HasSubstr("is a reranker"));
  directory.Write("decoder/config.json", R"({"model_type":"llama"})");
  directory.Write("decoder/model.safetensors", "");
  const fs::path decoder = directory.path() / "decoder";
  EXPECT_FALSE(Encoder::IsEncoder(decoder.string()));
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { LoadOn("cpu", decoder); }),
              HasSubstr("'llama' is no encoder"));
}

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
  for (const fs::path& model : testing_support::OraclesOf("encoders")) {
    const fs::path file = model / "golden.json";
    const Json oracles = ParseJson(ReadTextFile(file, 64u << 20), file.string());
    Texts texts;
    for (const Json& oracle : oracles) {
      texts.push_back(oracle.at("ids").get<std::vector<TokenId>>());
    }
    for (const std::string& device : encodertest::Devices()) {
      const auto encoder = LoadOn(device, model);
      const std::string what = model.string() + " on " + device;
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

double Cosine(const std::vector<float>& x, const std::vector<float>& y) {
  double sum = 0.0;
  for (size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(x[i]) * y.at(i);
  return sum;  // both have length 1
}

// Other vectors than float32 gives, but near them, and the same in every company.
TEST(EncoderPrecision, MixedIsNearAndTheSameInAnyCompany) {
  const testing_support::TempDirectory directory;
  const testing_support::TinyEncoderShape shape{.hidden = 64, .ffn = 128, .seed = 7};
  const std::filesystem::path path = testing_support::WriteTinyEncoder(shape, directory.path());
  Texts texts;
  std::mt19937 random(12);
  for (const size_t length : {1, 2, 16, 17, 130, 300}) {
    texts.emplace_back(length);
    for (TokenId& token : texts.back()) {
      token = static_cast<TokenId>(random() % static_cast<unsigned>(shape.vocab));
    }
  }
  for (const std::string& device : Devices()) {
    const std::vector<Embedding> plain = LoadOn(device, path)->Embed(texts);
    const auto encoder = LoadOn(device, path, 2, "mixed");
    const std::vector<Embedding> found = encoder->Embed(texts);
    for (size_t t = 0; t < texts.size(); ++t) {
      EXPECT_GT(Cosine(found[t].dense, plain[t].dense), 0.999) << device << ", text " << t;
      EXPECT_EQ(encoder->Embed(std::span(&texts[t], 1)).front().dense, found[t].dense) << device;
    }
    EXPECT_NE(found.back().dense, plain.back().dense) << device;
  }
}

// Whoever asked for texts is asked between two passes whether it still wants them.
TEST(Encoder, WorkEndsWithinAPass) {
  const TempDirectory directory;
  const auto encoder = LoadOn("cpu", testing_support::WriteTinyEncoder(kBert, directory.path()));
  const Texts texts = RandomTexts(std::vector<int>(50, 40), 20);
  EmbedOptions options;
  options.batch_rows = 40;  // a text for each pass
  int looks = 0;
  WorkBudget budget;
  budget.unwanted = [&] { return ++looks > 3; };
  const BudgetScope scope(budget);
  EXPECT_THROW(encoder->Embed(texts, options), WorkStopped);
  EXPECT_EQ(looks, 4);
  budget.unwanted = nullptr;
  EXPECT_EQ(encoder->Embed(texts, options).size(), texts.size());
}

// Two who ask at once take turns: a long list of texts keeps nobody out, and waiting can be ended.
TEST(Encoder, PassesAreTakenInTurn) {
  const TempDirectory directory;
  const auto encoder = LoadOn("cpu", testing_support::WriteTinyEncoder(kBert, directory.path()));
  const Texts many = RandomTexts(std::vector<int>(20'000, 40), 20);
  std::atomic<bool> over = false, stopped = false;
  std::thread long_list([&] {
    WorkBudget budget;
    budget.unwanted = [&] { return over.load(); };
    const BudgetScope scope(budget);
    EmbedOptions options;
    options.batch_rows = 40;
    try {
      encoder->Embed(many, options);
    } catch (const WorkStopped&) {
      stopped = true;
    }
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(encoder->Embed(RandomTexts({5, 6}, 20)).size(), 2u);
  over = true;
  long_list.join();
  EXPECT_TRUE(stopped);  // all three came before its end
}

// Columns that no block of 8-bit codes fits stay as they are.
TEST(EncoderPrecision, MixedTakesAnyWidth) {
  const testing_support::TempDirectory directory;
  const testing_support::TinyEncoderShape shape;  // 48 columns
  const std::filesystem::path path = testing_support::WriteTinyEncoder(shape, directory.path());
  const Texts texts = {{1, 2, 3}, {4, 5}};
  const auto plain = LoadOn("cpu", path)->Embed(texts);
  const auto mixed = LoadOn("cpu", path, 2, "mixed")->Embed(texts);
  for (size_t t = 0; t < texts.size(); ++t) EXPECT_EQ(mixed[t].dense, plain[t].dense);
}

}  // namespace

// Encoders against what Transformers computed from the same weights.

// Encoders in mixed precision: 8-bit products on a processor, 16-bit ones on a device.

}  // namespace banyan
