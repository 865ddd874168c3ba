// Blocks of pseudo-random bytes with finite scales. The expected values are those of gguf-py's
// dequantisation: a hash of all of them, and four in the open to see what differs.
#include "tensor/quantization.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "tensor/narrow_floats.h"

namespace banyan {
namespace {

struct Expected {
  DType type;
  std::uint32_t seed;
  int blocks;
  std::uint64_t hash;         // FNV-1a of the float32 values' bytes
  std::array<float, 4> some;  // values 0, 1, 17 and the last
};

const Expected kExpected[] = {
    {DType::kQ4_0,
     4u,
     5,
     0xbac89a10b6ea2c69ull,
     {-0x1.968p-5f, 0x1.0f0p-4f, -0x1.52cp-5f, 0x1.ae8p-5f}},
    {DType::kQ4_1,
     5u,
     5,
     0x1f8d3aab60786115ull,
     {-0x1.c71p-4f, -0x1.7438000p-3f, -0x1.535p-4f, -0x1.092p-4f}},
    {DType::kQ5_0,
     6u,
     5,
     0x2c5a7f48b8b3b815ull,
     {-0x1.5d58000p-3f, 0x1.4464000p-3f, -0x1.8f4p-6f, 0x1.960c000p-3f}},
    {DType::kQ5_1,
     7u,
     5,
     0x28308df738fed93eull,
     {-0x1.5b2p-6f, -0x1.f9d8000p-4f, -0x1.50bc000p-3f, 0x1.6b58000p-3f}},
    {DType::kQ8_0,
     8u,
     5,
     0x99eef9c76b10fa55ull,
     {0x1.8e1c000p-1f, -0x1.a31p-4f, -0x1.5ef7000p-1f, -0x1.3088000p-2f}},
    {DType::kQ2_K,
     9u,
     5,
     0x13c3ad1fb2a5b93aull,
     {0x1.08ba000p-2f, 0x1.08ba000p-2f, 0x1.4268000p-4f, -0x1.d074000p-2f}},
    {DType::kQ3_K,
     10u,
     5,
     0xab760cb9323965e8ull,
     {-0x1.904p-5f, -0x0.0p+0f, 0x1.5e38000p-4f, -0x1.4604000p-1f}},
    {DType::kQ4_K,
     11u,
     5,
     0x7b10c7ef669b7ee5ull,
     {0x1.2758800p+1f, 0x1.9500800p+2f, 0x1.eac7400p+2f, 0x1.d09fe00p+2f}},
    {DType::kQ5_K,
     12u,
     5,
     0x7b6f6c4e24e88ad0ull,
     {0x1.3d0ea00p+3f, 0x1.213c000p+0f, 0x1.2773000p+3f, -0x1.3963800p+1f}},
    {DType::kQ6_K,
     13u,
     5,
     0x718cb460dd008c2eull,
     {-0x1.0461800p+0f, 0x1.b8a5000p-1f, -0x1.e949800p+1f, -0x1.9059c00p+1f}},
    {DType::kIQ4_NL,
     14u,
     5,
     0xedf1728453c1be23ull,
     {0x1.531p-4f, -0x1.deed000p-1f, 0x1.5fc7000p-1f, 0x1.4d6p+0f}},
    {DType::kIQ1_S,
     15u,
     150,
     0xd4730379ca4e0216ull,
     {-0x1.b24c000000000p-6f, -0x1.b24c000000000p-6f, -0x1.e895800000000p-3f,
      -0x1.0640000000000p-10f}},
    {DType::kIQ1_M,
     16u,
     150,
     0xc139c668e8aeab3full,
     {-0x1.0a0b800000000p+1f, -0x1.0a0b800000000p+1f, 0x1.7a60000000000p-5f,
      -0x1.d8b6000000000p-2f}},
    {DType::kIQ2_XXS,
     17u,
     150,
     0x1298fe3a0ff75e07ull,
     {0x1.a878000000000p-3f, 0x1.a878000000000p-3f, -0x1.a878000000000p-3f,
      -0x1.9ce4000000000p-3f}},
    {DType::kIQ2_XS,
     18u,
     150,
     0x52f04231f300d974ull,
     {-0x1.7c62e00000000p+0f, 0x1.1b14000000000p-2f, -0x1.cd50000000000p-4f,
      0x1.31a6000000000p-2f}},
    {DType::kIQ2_S,
     19u,
     150,
     0xc4d2564908371b28ull,
     {0x1.9740000000000p-6f, -0x1.9740000000000p-6f, -0x1.83a1400000000p-1f,
      0x1.5af2c00000000p-2f}},
    {DType::kIQ3_XXS,
     20u,
     150,
     0xd7bee27037fdedbdull,
     {-0x1.aee9000000000p+0f, 0x1.5292800000000p+1f, 0x1.ec78000000000p-3f, 0x1.25d4c00000000p+1f}},
    {DType::kIQ3_S,
     21u,
     150,
     0xdd20422ee61e48b3ull,
     {-0x1.8f80000000000p-7f, 0x1.8f80000000000p-7f, 0x1.8f80000000000p-7f,
      -0x1.cb3a800000000p+0f}},
    {DType::kIQ4_XS,
     22u,
     150,
     0xc8b0242dd7b1945cull,
     {-0x1.16f2a00000000p+3f, 0x1.12a8000000000p-3f, 0x1.281d200000000p+3f,
      -0x1.44aec00000000p+4f}},
    {DType::kTQ1_0,
     23u,
     150,
     0x028240bca365bf8bull,
     {-0x1.43c0000000000p-7f, 0x0.0p+0f, 0x0.0p+0f, 0x1.4fc0000000000p-7f}},
    {DType::kTQ2_0,
     24u,
     150,
     0xe66d98f0254e46a4ull,
     {0x1.9080000000000p-7f, -0x1.9080000000000p-7f, 0x0.0p+0f, 0x1.6fc0000000000p-6f}},
    {DType::kMXFP4,
     25u,
     150,
     0x6c50eb9cbe8fd3f4ull,
     {-0x1.8000000000000p-1f, -0x1.8000000000000p+1f, -0x1.0000000000000p+1f,
      0x1.0000000000000p+0f}},
};

// A byte of a block that is part of a scale: `stays` of its bits remain, `set` are set, so that the
// scale is finite and of ordinary size. tests/test_gguf_types.py does the same.
struct TamedByte {
  size_t at;
  std::byte stays, set;
};

std::vector<TamedByte> TamedBytes(DType type) {
  const auto half = [](size_t at) { return TamedByte{at + 1, std::byte{0x83}, std::byte{0x20}}; };
  switch (type) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {half(0), half(2)};
    case DType::kQ2_K:
      return {half(80), half(82)};
    case DType::kQ3_K:
      return {half(108)};
    case DType::kQ6_K:
      return {half(208)};
    case DType::kTQ1_0:
      return {half(52)};
    case DType::kTQ2_0:
      return {half(64)};
    case DType::kIQ1_M:  // the top four bits of the scale stand in the last byte
      return {{55, std::byte{0x8f}, std::byte{0x20}}};
    case DType::kMXFP4:
      return {{0, std::byte{0x07}, std::byte{0x78}}};
    default:
      return {half(0)};
  }
}

std::vector<std::byte> RandomBlocks(const Expected& expected, std::uint32_t seed) {
  const size_t size = static_cast<size_t>(TraitsOf(expected.type).bytes);
  std::vector<std::byte> bytes(size * static_cast<size_t>(expected.blocks));
  for (std::byte& b : bytes) {
    seed = seed * 1664525u + 1013904223u;
    b = static_cast<std::byte>(seed >> 24);
  }
  for (size_t begin = 0; begin < bytes.size(); begin += size) {
    for (const TamedByte& tamed : TamedBytes(expected.type)) {
      std::byte& b = bytes[begin + tamed.at];
      b = (b & tamed.stays) | tamed.set;
    }
  }
  return bytes;
}

std::uint64_t Hash(const std::vector<float>& values) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const float value : values) {
    std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    for (int i = 0; i < 4; ++i, bits >>= 8) hash = (hash ^ (bits & 255u)) * 0x100000001b3ull;
  }
  return hash;
}

class QuantizedType : public testing::TestWithParam<Expected> {
 protected:
  size_t Count() const {
    return static_cast<size_t>(TraitsOf(GetParam().type).block * GetParam().blocks);
  }
};

TEST_P(QuantizedType, EqualsGgufPy) {
  const auto bytes = RandomBlocks(GetParam(), GetParam().seed);
  std::vector<float> values(Count());
  Dequantize(GetParam().type, bytes, values);
  EXPECT_EQ(values[0], GetParam().some[0]);
  EXPECT_EQ(values[1], GetParam().some[1]);
  EXPECT_EQ(values[17], GetParam().some[2]);
  EXPECT_EQ(values.back(), GetParam().some[3]);
  EXPECT_EQ(Hash(values), GetParam().hash);
}

TEST_P(QuantizedType, CodesGiveTheSameBits) {
  const DType type = GetParam().type;
  const auto bytes = RandomBlocks(GetParam(), GetParam().seed + 1000);
  const QuantizedForm form = QuantizedFormOf(type);
  ASSERT_GT(form.group, 0);
  std::vector<float> values(Count());
  Dequantize(type, bytes, values);
  const size_t group = static_cast<size_t>(form.group);
  std::vector<std::int8_t> codes(Count());
  std::vector<float> scales(Count() / group), minima(form.has_min ? scales.size() : 0);
  DequantizeToCodes(type, bytes, codes, scales, minima);
  for (size_t i = 0; i < values.size(); ++i) {
    const float minimum = form.has_min ? minima[i / group] : 0.0f;
    const float value = scales[i / group] * static_cast<float>(codes[i]) - minimum;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(values[i])) << i;
  }
}

TEST_P(QuantizedType, EmptyRow) {
  Dequantize(GetParam().type, {}, {});
  DequantizeToCodes(GetParam().type, {}, {}, {}, {});
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedType, testing::ValuesIn(kExpected),
                         [](const auto& info) { return TraitsOf(info.param.type).name; });

TEST(QuantizedQ8_K, CodesTimesTheScale) {
  std::vector<std::byte> bytes(292);
  const float scale = -0.375f;
  std::memcpy(bytes.data(), &scale, sizeof(scale));
  for (size_t i = 0; i < 256; ++i) bytes[4 + i] = static_cast<std::byte>(i);
  for (size_t i = 260; i < 292; ++i) bytes[i] = std::byte{0xff};  // sums, which are not values
  std::vector<float> values(256);
  Dequantize(DType::kQ8_K, bytes, values);
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(values[static_cast<size_t>(i)], -0.375f * static_cast<float>(i < 128 ? i : i - 256));
  }
}

// gguf-py's random exponents leave out the ends: subnormal scales, and one that overflows.
TEST(QuantizedMXFP4, ExtremeExponents) {
  std::vector<std::byte> bytes(17, std::byte{0x71});  // low halves 0.5, high halves 6
  const auto values_at = [&](int exponent) {
    bytes[0] = static_cast<std::byte>(exponent);
    std::vector<float> values(32);
    Dequantize(DType::kMXFP4, bytes, values);
    return std::pair(values[0], values[16]);
  };
  EXPECT_EQ(values_at(0), std::pair(0x1p-128f, 0x1.8p-125f));
  EXPECT_EQ(values_at(1), std::pair(0x1p-127f, 0x1.8p-124f));
  EXPECT_EQ(values_at(2), std::pair(0x1p-126f, 0x1.8p-123f));
  EXPECT_EQ(values_at(127), std::pair(0.5f, 6.0f));
  EXPECT_TRUE(std::isinf(values_at(254).second));
}

TEST(PlainTypes, Decode) {
  const std::array<float, 3> wanted = {1.5f, -0.25f, 3.0f};
  std::array<std::uint16_t, 3> halves{}, brains{};
  for (size_t i = 0; i < 3; ++i) {
    halves[i] = FloatToF16(wanted[i]);
    brains[i] = FloatToBF16(wanted[i]);
  }
  std::array<float, 3> found{};
  Dequantize(DType::kF32, std::as_bytes(std::span(wanted)), found);
  EXPECT_EQ(found, wanted);
  Dequantize(DType::kF16, std::as_bytes(std::span(halves)), found);
  EXPECT_EQ(found, wanted);
  Dequantize(DType::kBF16, std::as_bytes(std::span(brains)), found);
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(QuantizedFormOf(DType::kBF16).group, 0);
}

std::vector<std::byte> BytesFor(const std::vector<float>& values) {
  return std::vector<std::byte>(RowBytes(DType::kQ8_0, static_cast<std::int64_t>(values.size())));
}

TEST(QuantizeQ8, ValuesChangeByHalfAScaleAtMost) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> values(32 * 40);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = normal(random) * std::pow(10.0f, static_cast<float>(i / 32 % 7) - 3.0f);
  }
  std::fill_n(values.begin() + 64, 32, 0.0f);
  std::vector<std::byte> bytes = BytesFor(values);
  ASSERT_TRUE(QuantizeQ8_0(values, bytes));
  std::vector<float> back(values.size());
  Dequantize(DType::kQ8_0, bytes, back);
  for (size_t block = 0; block < values.size(); block += 32) {
    float largest = 0.0f;
    for (size_t i = block; i < block + 32; ++i) largest = std::max(largest, std::fabs(values[i]));
    // Half a step, and what the scale's own 11 bits change of 127 steps.
    const float most = largest / 127.0f * (0.5f + 127.0f / 2048.0f);
    for (size_t i = block; i < block + 32; ++i) EXPECT_LE(std::fabs(back[i] - values[i]), most);
  }
}

TEST(QuantizeQ8, StoredValuesStayAsTheyAre) {
  std::vector<float> values(32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.25f * (static_cast<float>(i) * 8 - 121);
  std::vector<std::byte> bytes = BytesFor(values);
  ASSERT_TRUE(QuantizeQ8_0(values, bytes));  // the largest is 127 times a quarter
  std::vector<float> back(values.size());
  Dequantize(DType::kQ8_0, bytes, back);
  EXPECT_EQ(back, values);
}

TEST(QuantizeQ8, WhatHasNoScaleIsRefused) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e30f}) {
    std::vector<float> values(64, 1.0f);
    values[40] = bad;
    std::vector<std::byte> bytes = BytesFor(values);
    EXPECT_FALSE(QuantizeQ8_0(values, bytes)) << bad;
  }
}

}  // namespace
}  // namespace banyan
