// Expected numbers: the tables of Transformers 5 (float32) for the same parameters.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "banyan/error.h"

namespace banyan {
namespace {

struct Case {
  const char* name;
  RopeConfig rope;
  int context;
  std::array<float, 6> frequencies;  // at 0, 1, n/4, n/2, 3n/4 and n - 1 of n = rotary_dim/2
  double scale;
};

RopeConfig LongRope() {
  RopeConfig rope{.kind = RopeKind::kLongRope, .rotary_dim = 96, .factor = 32.0};
  rope.original_context = 4096;
  for (int i = 0; i < 48; ++i) {
    rope.short_factor.push_back(1.0 + 0.01 * i);
    rope.long_factor.push_back(1.0 + 0.5 * i);
  }
  return rope;
}

RopeConfig Llama3(double factor) {
  return {.kind = RopeKind::kLlama3,
          .theta = 500000.0,
          .rotary_dim = 128,
          .factor = factor,
          .low_freq_factor = 1.0,
          .high_freq_factor = 4.0,
          .original_context = 8192};
}

const Case kCases[] = {
    {"Plain",
     {.theta = 10000.0, .rotary_dim = 128},
     131072,
     {0x1p+0f, 0x1.bb5faep-1f, 0x1.99999ap-4f, 0x1.47ae14p-7f, 0x1.0624dep-10f, 0x1.e459c4p-14f},
     1.0},
    {"PlainBigTheta",
     {.theta = 1000000.0, .rotary_dim = 128},
     131072,
     {0x1p+0f, 0x1.9c975ap-1f, 0x1.030dc6p-5f, 0x1.0624dep-10f, 0x1.094564p-15f, 0x1.4d1c98p-20f},
     1.0},
    {"Linear",
     {.kind = RopeKind::kLinear, .theta = 10000.0, .rotary_dim = 128, .factor = 4.0},
     131072,
     {0x1p-2f, 0x1.bb5faep-3f, 0x1.99999ap-6f, 0x1.47ae14p-9f, 0x1.0624dep-12f, 0x1.e459c4p-16f},
     1.0},
    {"Llama31",
     Llama3(8.0),
     131072,
     {0x1p+0f, 0x1.a11582p-1f, 0x1.341190p-5f, 0x1.132ba4p-11f, 0x1.be2188p-18f, 0x1.4985fep-22f},
     1.0},
    {"Llama32",
     Llama3(32.0),
     131072,
     {0x1p+0f, 0x1.a11582p-1f, 0x1.341190p-5f, 0x1.c26c40p-12f, 0x1.be2188p-20f, 0x1.4985fep-24f},
     1.0},
    {"Yarn",
     {.kind = RopeKind::kYarn,
      .theta = 1000000.0,
      .rotary_dim = 128,
      .factor = 4.0,
      .original_context = 32768},
     131072,
     {0x1p+0f, 0x1.9c975ap-1f, 0x1.030dc6p-5f, 0x1.3c1d64p-11f, 0x1.094564p-17f, 0x1.4d1c98p-22f},
     1.138629436111989},
    {"YarnMscaleUntruncated",
     {.kind = RopeKind::kYarn,
      .theta = 10000.0,
      .rotary_dim = 128,
      .factor = 40.0,
      .original_context = 4096,
      .truncate = false,
      .mscale = 0.707,
      .mscale_all_dim = 1.0},
     163840,
     {0x1p+0f, 0x1.bb5faep-1f, 0x1.99999ap-4f, 0x1.6a0664p-8f, 0x1.a36e2ep-16f, 0x1.837b02p-19f},
     0.9210423553163399},
    {"LongRopeShort",
     LongRope(),
     4096,
     {0x1p+0f, 0x1.a26c36p-1f, 0x1.6db6dcp-4f, 0x1.084210p-7f, 0x1.818182p-11f, 0x1.59ae68p-14f},
     1.1902380714238083},
    {"LongRopeLong",
     LongRope(),
     4097,
     {0x1p+0f, 0x1.19bceap-1f, 0x1.d41d42p-7f, 0x1.934c68p-11f, 0x1.b98174p-15f, 0x1.4bdaa2p-18f},
     1.1902380714238083},
};

class RopeReference : public testing::TestWithParam<Case> {};

// Two units in the last place: the reference's vectorised power function rounds differently.
TEST_P(RopeReference, TableEqualsTransformers) {
  const Case& expected = GetParam();
  const RopeTable table = MakeRopeTable(expected.rope, expected.context);
  const size_t n = static_cast<size_t>(expected.rope.rotary_dim / 2);
  ASSERT_EQ(table.inverse_frequency.size(), n);
  const std::array<size_t, 6> at = {0, 1, n / 4, n / 2, 3 * n / 4, n - 1};
  for (size_t i = 0; i < at.size(); ++i) {
    const float wanted = expected.frequencies[i];
    EXPECT_NEAR(table.inverse_frequency[at[i]], wanted,
                2 * std::numeric_limits<float>::epsilon() * wanted)
        << at[i];
  }
  EXPECT_FLOAT_EQ(table.scale, static_cast<float>(expected.scale));
}

INSTANTIATE_TEST_SUITE_P(All, RopeReference, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Rope, DivisorsDivide) {
  RopeConfig rope{.theta = 10000.0, .rotary_dim = 4};
  const RopeTable plain = MakeRopeTable(rope, 100);
  rope.frequency_divisors = {1.0, 8.0};
  const RopeTable divided = MakeRopeTable(rope, 100);
  EXPECT_EQ(divided.inverse_frequency[0], plain.inverse_frequency[0]);
  EXPECT_EQ(divided.inverse_frequency[1], plain.inverse_frequency[1] / 8.0f);
}

TEST(Rope, ExtendWithYarnReplacesTheScaling) {
  RopeConfig rope = Llama3(8.0);
  rope.frequency_divisors.assign(64, 2.0);
  const RopeConfig extended = ExtendWithYarn(rope, 4.0, 32768);
  EXPECT_EQ(extended.kind, RopeKind::kYarn);
  EXPECT_EQ(extended.theta, 500000.0);
  EXPECT_EQ(extended.rotary_dim, 128);
  EXPECT_EQ(extended.factor, 4.0);
  EXPECT_EQ(extended.original_context, 32768);
  EXPECT_TRUE(extended.frequency_divisors.empty());
  EXPECT_THROW(ExtendWithYarn(rope, 0.5, 32768), Error);
  EXPECT_THROW(ExtendWithYarn(rope, std::nan(""), 32768), Error);
  EXPECT_THROW(ExtendWithYarn(rope, 2.0, 0), Error);
}

}  // namespace
}  // namespace banyan
