// Encoders in mixed precision: 8-bit products on a processor, 16-bit ones on a device.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "banyan/encoder.h"
#include "retrieve/encoder_fixture.h"
#include "support/temp_directory.h"
#include "support/tiny_encoder.h"

namespace banyan {
namespace {

using encodertest::Devices;
using encodertest::LoadOn;
using encodertest::Texts;

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
}  // namespace banyan
