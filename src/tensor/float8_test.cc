#include "tensor/float8.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>

#include "tensor/dequantize.h"

namespace banyan {
namespace {

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
