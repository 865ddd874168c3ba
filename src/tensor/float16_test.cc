#include "tensor/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace banyan {
namespace {

TEST(Float16, EveryHalfSurvivesTheRoundTrip) {
  for (std::uint32_t h = 0; h < 0x10000u; ++h) {
    const float value = F16ToFloat(static_cast<std::uint16_t>(h));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(F16ToFloat(FloatToF16(value))));
      continue;
    }
    ASSERT_EQ(FloatToF16(value), h);
  }
}

// The naive twin: the nearest half by search over its neighbours, ties to the even mantissa.
std::uint16_t NearestHalf(float value) {
  std::uint16_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (std::uint32_t h = 0; h < 0x7c00u; ++h) {
    const double distance =
        std::abs(static_cast<double>(F16ToFloat(static_cast<std::uint16_t>(h))) - value);
    if (distance < best_distance || (distance == best_distance && h % 2 == 0)) {
      best = static_cast<std::uint16_t>(h);
      best_distance = distance;
    }
  }
  return best;
}

TEST(Float16, RoundsToNearestEven) {
  for (const float value : {0x1p-25f, 0x1.000002p-25f, 0x1.8p-24f, 0x1.ffcp-15f, 0x1.ffep-15f,
                            0x1.002p0f, 0x1.006p0f, 0.1f, 0.3f, 65504.0f, 65519.0f}) {
    EXPECT_EQ(FloatToF16(value), NearestHalf(value)) << value;
    EXPECT_EQ(FloatToF16(-value), NearestHalf(value) | 0x8000u) << value;
  }
  EXPECT_EQ(FloatToF16(65520.0f), 0x7c00u);
  EXPECT_EQ(FloatToF16(std::numeric_limits<float>::infinity()), 0x7c00u);
  EXPECT_TRUE(std::isnan(F16ToFloat(FloatToF16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(BFloat16, RoundsToNearestEven) {
  for (std::uint32_t h = 0; h < 0x10000u; ++h) {
    const float value = BF16ToFloat(static_cast<std::uint16_t>(h));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(BF16ToFloat(FloatToBF16(value))));
      continue;
    }
    ASSERT_EQ(FloatToBF16(value), h);
  }
  EXPECT_EQ(FloatToBF16(0x1.01p0f), 0x3f80u);        // tie, down to even
  EXPECT_EQ(FloatToBF16(0x1.03p0f), 0x3f82u);        // tie, up to even
  EXPECT_EQ(FloatToBF16(0x1.0101p0f), 0x3f81u);      // above the tie
  EXPECT_EQ(FloatToBF16(0x1.fffffep127f), 0x7f80u);  // overflow
}

}  // namespace
}  // namespace banyan
