#include "retrieve/vector_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "banyan/error.h"
#include "support/error_message.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;
using testing_support::ErrorMessage;

// Vectors of length 1 around some middles, as those of texts are.
std::vector<float> RandomVectors(size_t count, size_t dimensions) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> middles(12, std::vector<float>(dimensions));
  for (auto& middle : middles) std::ranges::generate(middle, [&] { return normal(random); });
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    std::vector<float> vector = middles[random() % middles.size()];
    float squares = 0.0f;
    for (float& x : vector) {
      x += normal(random);
      squares += x * x;
    }
    for (float& x : vector) values.push_back(x / std::sqrt(squares));
  }
  return values;
}

std::set<int> Numbers(const std::vector<ScoredDocument>& found) {
  std::set<int> numbers;
  for (const ScoredDocument& one : found) numbers.insert(one.document);
  return numbers;
}

TEST(VectorSearch, AnInnerProductIsTheSumOfProducts) {
  for (const size_t size : {1u, 15u, 16u, 17u, 100u}) {
    std::vector<float> a(size), b(size);
    double expected = 0.0;
    for (size_t i = 0; i < size; ++i) {
      a[i] = static_cast<float>(i % 7) - 2.5f;
      b[i] = static_cast<float>(i % 5) * 0.5f;
      expected += static_cast<double>(a[i]) * b[i];
    }
    EXPECT_NEAR(InnerProduct(a, b), expected, 1e-4) << size;
  }
}

TEST(VectorSearch, TheNearestComeFirstAndEqualOnesInOrder) {
  const std::vector<float> values = {0, 1, 1, 0, 0.6f, 0.8f, 1, 0};
  const std::vector<float> query = {1, 0};
  const auto found = NearestOf({values, 2}, query, 3);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].document, 1);
  EXPECT_EQ(found[1].document, 3);
  EXPECT_EQ(found[2].document, 2);
  EXPECT_FLOAT_EQ(found[2].score, 0.6f);
  EXPECT_EQ(NearestOf({values, 2}, query, 99).size(), 4u);
}

TEST(VectorSearch, FaissFindsWhatTheScanFinds) {
  constexpr size_t kCount = 2000, kDimensions = 24, kTop = 10;
  const std::vector<float> values = RandomVectors(kCount, kDimensions);
  const VectorTable table{values, kDimensions};
  for (const VectorSearch search : {VectorSearch::kIvf, VectorSearch::kHnsw}) {
    const std::string name = VectorSearchName(search);
    if (!HasFaiss()) {
      EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { FaissBytes(search, table); }),
                  HasSubstr("libfaiss"));
      continue;
    }
    const std::string bytes = FaissBytes(search, table);
    EXPECT_EQ(FaissBytes(search, table), bytes) << name;
    const auto finder = OpenFaiss(bytes, kCount, kDimensions, "index");
    size_t right = 0;
    for (size_t q = 0; q < 50; ++q) {
      const auto query = table.at(q * 7);
      const std::set<int> expected = Numbers(NearestOf(table, query, kTop));
      const auto candidates = finder->Find(query, kTop);
      for (const ScoredDocument& one : NearestAmong(table, query, candidates, kTop)) {
        right += expected.contains(one.document) ? 1 : 0;
        EXPECT_EQ(one.score, InnerProduct(table.at(static_cast<size_t>(one.document)), query));
      }
    }
    EXPECT_GE(right, 450u) << name;
    EXPECT_EQ(finder->Find(table.at(0), 5000).size() > kTop, true) << name;
    EXPECT_THAT(ErrorMessage(ErrorKind::kFormat,
                             [&] { OpenFaiss(bytes, kCount - 1, kDimensions, "my index"); }),
                HasSubstr("my index"));
    EXPECT_THROW(OpenFaiss(bytes.substr(0, 20), kCount, kDimensions, "index"), Error);
  }
}

}  // namespace
}  // namespace banyan
