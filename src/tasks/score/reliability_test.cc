#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/score.h"

namespace banyan {

namespace {

using ::testing::HasSubstr;

TEST(CalibrationTest, HandMadeBins) {
  // Two bins of two: means 0.25 and 0.85, right 0.5 and 1.
  const Reliability found = Calibrate({{0.9, true}, {0.3, false}, {0.8, true}, {0.2, true}}, 2);
  EXPECT_EQ(found.count, 4);
  ASSERT_EQ(found.bins.size(), 2u);
  EXPECT_NEAR(found.bins[0].confidence, 0.25, 1e-12);
  EXPECT_NEAR(found.bins[0].accuracy, 0.5, 1e-12);
  EXPECT_NEAR(found.bins[0].low, 0.2, 1e-12);
  EXPECT_NEAR(found.bins[0].high, 0.3, 1e-12);
  EXPECT_NEAR(found.bins[1].confidence, 0.85, 1e-12);
  EXPECT_NEAR(found.expected_error, (0.25 * 2 + 0.15 * 2) / 4, 1e-12);
  EXPECT_NEAR(found.brier, (0.01 + 0.09 + 0.04 + 0.64) / 4, 1e-12);
}

TEST(CalibrationTest, BinsHaveTheSameCountGiveOrTakeOne) {
  std::vector<ConfidencePoint> points;
  for (int i = 0; i < 23; ++i) points.push_back({i / 23.0, i % 2 == 0});
  const Reliability found = Calibrate(points);
  ASSERT_EQ(found.bins.size(), 10u);
  std::int64_t sum = 0;
  for (const ReliabilityBin& bin : found.bins) {
    EXPECT_GE(bin.count, 2);
    EXPECT_LE(bin.count, 3);
    sum += bin.count;
  }
  EXPECT_EQ(sum, 23);
}

TEST(CalibrationTest, FewPointsAndNone) {
  EXPECT_EQ(Calibrate({{0.5, true}, {0.5, false}, {1.0, true}}).bins.size(), 3u);
  const Reliability none = Calibrate({});
  EXPECT_EQ(none.count, 0);
  EXPECT_TRUE(none.bins.empty());
  EXPECT_EQ(none.expected_error, 0.0);
}

TEST(CalibrationTest, AsTextAndPicture) {
  const Reliability found = Calibrate({{0.75, true}, {0.75, false}}, 1);
  EXPECT_THAT(CalibrationText(found), HasSubstr("| 0.750 to 0.750 | 2 | 0.750 | 0.500 |"));
  const std::string svg = ReliabilitySvg(found, "a<b>&c");
  EXPECT_THAT(svg, HasSubstr("a&lt;b>&amp;c (calibration error 0.250, 2 values)"));
  EXPECT_THAT(svg, HasSubstr(R"(<circle cx="296.0" cy="200.0")"));  // 56 + 0.75·320, 40 + 0.5·320
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
}

}  // namespace

}  // namespace banyan
