#include "tensor/narrow_floats.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "tensor/quantization.h"

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

// All magnitudes by the definition: exponents 1 … 15 with bias 7, the lowest also subnormal.
TEST(Float8, EveryCodeIsItsDefinition) {
  std::array<std::byte, 256> codes;
  std::array<float, 256> decoded;
  for (size_t code = 0; code < codes.size(); ++code) codes[code] = static_cast<std::byte>(code);
  Dequantize(DType::kF8_E4M3, codes, decoded);
  double magnitude = 0.0, step = std::ldexp(1.0, -9);
  for (int code = 0; code < 127; ++code) {
    const auto positive = static_cast<std::uint8_t>(code);
    const auto negative = static_cast<std::uint8_t>(code | 128);
    EXPECT_EQ(E4M3ToFloat(positive), magnitude) << code;
    EXPECT_EQ(E4M3ToFloat(negative), -magnitude) << code;
    EXPECT_EQ(std::signbit(E4M3ToFloat(negative)), true) << code;
    EXPECT_EQ(decoded[positive], E4M3ToFloat(positive));
    EXPECT_EQ(decoded[negative], E4M3ToFloat(negative));
    magnitude += step;  // eight equal steps, then twice as large ones; the first two runs are equal
    if (code >= 15 && code % 8 == 7) step *= 2.0;
  }
  for (const std::uint8_t code : {0x7f, 0xff}) {
    EXPECT_TRUE(E4M3IsNaN(code) && std::isnan(E4M3ToFloat(code)) && std::isnan(decoded[code]));
  }
}

TEST(Float8, SomeKnownValues) {
  EXPECT_EQ(E4M3ToFloat(0x7e), 448.0f);
  EXPECT_EQ(E4M3ToFloat(0x38), 1.0f);
  EXPECT_EQ(E4M3ToFloat(0xb9), -1.125f);
  EXPECT_EQ(E4M3ToFloat(0x08), 0x1p-6f);
  EXPECT_EQ(E4M3ToFloat(0x07), 0x1.cp-7f);
  EXPECT_EQ(E4M3ToFloat(0x01), 0x1p-9f);
}

TEST(Float8, SignedBytes) {
  const std::array<std::byte, 4> codes = {std::byte{0}, std::byte{127}, std::byte{128},
                                          std::byte{255}};
  std::array<float, 4> values;
  Dequantize(DType::kI8, codes, values);
  EXPECT_EQ(values, (std::array<float, 4>{0.0f, 127.0f, -128.0f, -1.0f}));
}

}  // namespace
}  // namespace banyan
