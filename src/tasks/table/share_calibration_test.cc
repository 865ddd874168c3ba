#include "tasks/table/share_calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace banyan {
namespace {

double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

TEST(ShareCalibration, FindsScaleAndOffsetThatMadeTheLabels) {
  std::mt19937 random(1);
  std::normal_distribution<double> odds(0.0, 3.0);
  std::uniform_real_distribution<double> unit;
  std::vector<LabelledShares> rows;
  for (int i = 0; i < 20'000; ++i) {
    const double x = odds(random);
    rows.push_back(
        {{Sigmoid(x), 1.0 - Sigmoid(x)}, unit(random) < Sigmoid(0.4 * x - 1.5) ? 0U : 1U});
  }
  const ShareCalibration found = ShareCalibration::Fit(rows, true);
  EXPECT_NEAR(found.scale, 0.4, 0.03);
  EXPECT_NEAR(found.offset, -1.5, 0.08);
  std::vector<SaidProbability> before, after;
  for (const LabelledShares& row : rows) {
    before.push_back({row.shares[0], row.label == 0});
    after.push_back({found.Of(row.shares)[0], row.label == 0});
  }
  EXPECT_GT(CalibrationError(before), 0.15);
  EXPECT_LT(CalibrationError(after), 0.015);
}

TEST(ShareCalibration, ATemperatureKeepsTheOrderOfOptions) {
  std::mt19937 random(2);
  std::vector<LabelledShares> rows;
  for (int i = 0; i < 3000; ++i) {
    std::vector<double> shares = {0.97, 0.02, 0.01};
    std::rotate(shares.begin(), shares.begin() + i % 3, shares.end());
    const size_t best = static_cast<size_t>(3 - i % 3) % 3;
    rows.push_back({shares, random() % 10 < 7 ? best : (best + 1 + random() % 2) % 3});
  }
  const ShareCalibration found = ShareCalibration::Fit(rows, false);
  EXPECT_EQ(found.offset, 0.0);
  EXPECT_LT(found.scale, 1.0);
  const std::vector<double> of = found.Of(rows.front().shares);
  EXPECT_NEAR(of[0], 0.7, 0.03);
  EXPECT_GT(of[1], of[2]);
  EXPECT_NEAR(of[0] + of[1] + of[2], 1.0, 1e-12);
}

TEST(ShareCalibration, FewRowsAndCertainOnesAreFinite) {
  const std::vector<LabelledShares> certain(30, {{1.0, 0.0}, 0});
  const std::vector<LabelledShares> wrong(30, {{1.0, 0.0}, 1});
  for (const auto& rows : {certain, wrong, std::vector<LabelledShares>()}) {
    const ShareCalibration found = ShareCalibration::Fit(rows, true);
    EXPECT_TRUE(std::isfinite(found.scale) && std::isfinite(found.offset));
    EXPECT_GE(found.scale, 0.0);
  }
  EXPECT_LT(ShareCalibration::Fit(wrong, true).Of(wrong.front().shares)[0], 0.1);
  EXPECT_EQ(ShareCalibration::Fit({}, true).scale, 1.0);
}

TEST(ShareCalibration, TheErrorIsThatOfTheBins) {
  EXPECT_EQ(CalibrationError({}), 0.0);
  const std::vector<SaidProbability> said = {{0.9, true}, {0.95, false}, {0.1, false}, {1.0, true}};
  EXPECT_NEAR(CalibrationError(said), (0.85 + 0.1) / 4, 1e-12);
}

}  // namespace
}  // namespace banyan
