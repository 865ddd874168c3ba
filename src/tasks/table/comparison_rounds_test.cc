#include "tasks/table/comparison_rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace banyan {
namespace {

// Sorts by falling values; returns how many comparisons that took.
std::int64_t Sort(ComparisonRounds& rounds, const std::vector<double>& values) {
  std::int64_t count = 0;
  for (auto pairs = rounds.Next(); !pairs.empty(); pairs = rounds.Next()) {
    std::vector<double> leads;
    for (const auto& [pivot, other] : pairs) leads.push_back(values[other] - values[pivot]);
    count += static_cast<std::int64_t>(pairs.size());
    rounds.Take(leads);
  }
  return count;
}

std::vector<double> Drawn(std::mt19937& random, size_t items, unsigned different) {
  std::vector<double> values(items);
  for (double& value : values) value = random() % different;
  return values;
}

TEST(ComparisonRounds, SortsAndEqualOnesKeepTheirOrder) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::vector<double> values = Drawn(random, random() % 40, 1 + random() % 50);
    ComparisonRounds rounds(values.size(), 0);
    const std::int64_t count = Sort(rounds, values);
    std::vector<std::uint32_t> expected(values.size());
    std::iota(expected.begin(), expected.end(), 0U);
    std::ranges::stable_sort(expected, [&](auto a, auto b) { return values[a] > values[b]; });
    EXPECT_EQ(rounds.order(), expected);
    EXPECT_LE(count, ComparisonRounds::CostOf(values.size(), 0).most_comparisons);
  }
}

TEST(ComparisonRounds, TheFirstPlacesTakeFewerComparisons) {
  std::mt19937 random(2);
  const std::vector<double> values = Drawn(random, 500, 1'000'000);
  ComparisonRounds all(500, 0), top(500, 10);
  const std::int64_t of_all = Sort(all, values), of_top = Sort(top, values);
  EXPECT_TRUE(std::equal(top.order().begin(), top.order().begin() + 10, all.order().begin()));
  EXPECT_LT(of_top * 3, of_all);
}

TEST(ComparisonRounds, CostsAboutNLogN) {
  for (const size_t items : {2, 3, 10, 100, 1000, 4096}) {
    const ComparisonRounds::Cost cost = ComparisonRounds::CostOf(items, 0);
    const double n_log_n = static_cast<double>(items) * std::log2(items);
    EXPECT_LE(static_cast<double>(cost.comparisons), n_log_n);
    EXPECT_LE(cost.rounds, std::ceil(std::log2(items)) + 1);
    EXPECT_LE(static_cast<double>(cost.most_comparisons),
              2 * (n_log_n + static_cast<double>(items)));
  }
  EXPECT_EQ(ComparisonRounds::CostOf(0, 0).comparisons, 0);
  EXPECT_EQ(ComparisonRounds::CostOf(1, 0).comparisons, 0);
}

// Comparisons that contradict each other: it ends, and nothing is lost.
TEST(ComparisonRounds, EndsWhateverIsSaid) {
  std::mt19937 random(3);
  for (const int kind : {0, 1, 2}) {
    ComparisonRounds rounds(200, 0);
    std::int64_t count = 0;
    for (auto pairs = rounds.Next(); !pairs.empty(); pairs = rounds.Next()) {
      std::vector<double> leads;
      for (size_t i = 0; i < pairs.size(); ++i) {
        leads.push_back(kind == 0   ? 1.0
                        : kind == 1 ? -1.0
                                    : static_cast<double>(random() % 3) - 1.0);
      }
      count += static_cast<std::int64_t>(pairs.size());
      rounds.Take(leads);
    }
    EXPECT_LE(count, ComparisonRounds::CostOf(200, 0).most_comparisons);
    EXPECT_EQ(std::set<std::uint32_t>(rounds.order().begin(), rounds.order().end()).size(), 200U);
  }
}

}  // namespace
}  // namespace banyan
