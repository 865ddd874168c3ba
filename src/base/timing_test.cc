#include "base/timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace banyan {
namespace {

TEST(Quantiles, OfNothingAndOfOne) {
  Quantiles quantiles;
  EXPECT_EQ(quantiles.At(0.5), 0.0);
  quantiles.Add(0.02);
  EXPECT_NEAR(quantiles.At(0.0), 0.02, 0.001);
  EXPECT_NEAR(quantiles.At(0.99), 0.02, 0.001);
  EXPECT_EQ(quantiles.count(), 1);
}

TEST(Quantiles, ValuesOutsideTheRangeCountAtItsEnds) {
  Quantiles quantiles;
  for (const double value : {0.0, -1.0, 1e-9, 1e9, std::numeric_limits<double>::infinity()})
    quantiles.Add(value);
  EXPECT_NEAR(quantiles.At(0.5), 1e-6, 1e-7);
  EXPECT_GT(quantiles.At(1.0), 9e4);
}

TEST(Quantiles, WithinFivePercentOfSorting) {
  std::mt19937 random(3);
  std::lognormal_distribution<double> draw(-3.0, 2.0);
  Quantiles quantiles;
  std::vector<double> values;
  for (int i = 0; i < 5001; ++i) {
    values.push_back(draw(random));
    quantiles.Add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double q : {0.01, 0.25, 0.5, 0.9, 0.99}) {
    const double exact = values[static_cast<size_t>(std::ceil(q * 5001.0)) - 1];
    EXPECT_GE(quantiles.At(q), exact * 0.999) << q;
    EXPECT_LE(quantiles.At(q), exact * 1.051) << q;
  }
}

}  // namespace
}  // namespace banyan
