// Draws are uniform, independent of one another, and functions of their whole key.
#include "decode/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

namespace banyan {
namespace {

constexpr int kDraws = 20000;

double Mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// The key with its field `field` set to i.
DrawKey KeyOf(int field, std::uint64_t i) {
  DrawKey key{1, 2, 3, 4, 5};
  const std::array<std::uint64_t*, 5> fields = {&key.seed, &key.request, &key.question, &key.sample,
                                                &key.position};
  *fields[static_cast<size_t>(field)] = i;
  return key;
}

TEST(Random, TheSameKeyTheSameDraw) {
  EXPECT_EQ(UniformOf({1, 2, 3, 4, 5}), UniformOf({1, 2, 3, 4, 5}));
}

TEST(Random, EveryFieldCountsInItsPlace) {
  std::set<double> draws;
  for (int field = 0; field < 5; ++field) draws.insert(UniformOf(KeyOf(field, 77)));
  EXPECT_EQ(draws.size(), 5u);
  EXPECT_NE(UniformOf({0, 1, 0, 0, 0}), UniformOf({0, 0, 1, 0, 0}));
}

// Along each field: in [0, 1), sixteen equal bins filled alike (Pearson's statistic has mean 15 and
// deviation 5.5), and neighbours uncorrelated (deviation 1 / sqrt(draws)).
TEST(Random, UniformAndIndependentAlongEveryField) {
  for (int field = 0; field < 5; ++field) {
    SCOPED_TRACE(field);
    std::vector<double> draws;
    std::array<int, 16> bins{};
    for (std::uint64_t i = 0; i < kDraws; ++i) {
      const double u = UniformOf(KeyOf(field, i));
      ASSERT_GE(u, 0.0);
      ASSERT_LT(u, 1.0);
      draws.push_back(u);
      ++bins[static_cast<size_t>(u * 16.0)];
    }
    const double expected = kDraws / 16.0;
    double statistic = 0.0;
    for (const int count : bins) statistic += (count - expected) * (count - expected) / expected;
    EXPECT_LT(statistic, 15.0 + 5.0 * 5.5);
    const double mean = Mean(draws);
    EXPECT_NEAR(mean, 0.5, 5.0 * std::sqrt(1.0 / 12.0 / kDraws));
    double covariance = 0.0, variance = 0.0;
    for (size_t i = 0; i + 1 < draws.size(); ++i) {
      covariance += (draws[i] - mean) * (draws[i + 1] - mean);
      variance += (draws[i] - mean) * (draws[i] - mean);
    }
    EXPECT_NEAR(covariance / variance, 0.0, 5.0 / std::sqrt(static_cast<double>(kDraws)));
  }
}

// Two fields that move together must not cancel.
TEST(Random, FieldsDoNotCancel) {
  std::set<double> draws;
  for (std::uint64_t i = 0; i < 1000; ++i) draws.insert(UniformOf({7, i, i, i, i}));
  EXPECT_EQ(draws.size(), 1000u);
}

}  // namespace
}  // namespace banyan
