#include "values/decimal.h"

#include <gtest/gtest.h>

#include <random>

namespace banyan {
namespace {

TEST(Decimal, Exact) {
  EXPECT_EQ(MakeDecimal(1, -1) + MakeDecimal(2, -1), MakeDecimal(3, -1));
  EXPECT_EQ(MakeDecimal(135, -2) * MakeDecimal(1000), MakeDecimal(1350));
  EXPECT_EQ(MakeDecimal(1) / MakeDecimal(8), MakeDecimal(125, -3));
  EXPECT_EQ(MakeDecimal(5) + MakeDecimal(-5), MakeDecimal(0));
  EXPECT_EQ(-MakeDecimal(0), MakeDecimal(0));
  EXPECT_EQ(MakeDecimal("00120", -1), MakeDecimal(12));
  EXPECT_EQ(DecimalToJson(MakeDecimal(1) / MakeDecimal(3) * MakeDecimal(60))->dump(), "20");
  EXPECT_EQ(DecimalToJson(MakeDecimal("9223372036854775807", 0))->dump(), "9223372036854775807");
  EXPECT_FALSE(DecimalToJson(MakeDecimal("9223372036854775808", 0)).has_value());
  EXPECT_EQ(DecimalToJson(MakeDecimal(1, 25))->dump(), "1e+25");
  EXPECT_FALSE(DecimalToJson(MakeDecimal(1, 400)).has_value());
  EXPECT_FALSE(DecimalToJson(MakeDecimal(1, -400)).has_value());
  EXPECT_FALSE(DecimalToJson(MakeDecimal("12345678901234567890123", -3)).has_value());
}

TEST(Decimal, RandomSumsProductsAndQuotientsAreThoseOfIntegers) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 20000; ++i) {
    const auto draw = [&] {
      const int bits = 1 + static_cast<int>(random() % 30);
      const auto size = static_cast<std::int64_t>(random() % (1ull << bits));
      return random() % 2 == 0 ? size : -size;
    };
    const std::int64_t a = draw();
    const std::int64_t b = draw();
    EXPECT_EQ(MakeDecimal(a) + MakeDecimal(b), MakeDecimal(a + b));
    EXPECT_EQ(MakeDecimal(a) * MakeDecimal(b), MakeDecimal(a * b));
    if (b == 0) continue;
    EXPECT_EQ(MakeDecimal(a * b) / MakeDecimal(b), MakeDecimal(a));
    EXPECT_DOUBLE_EQ(ToDouble(MakeDecimal(a) / MakeDecimal(b)),
                     static_cast<double>(a) / static_cast<double>(b));
  }
}

}  // namespace
}  // namespace banyan
