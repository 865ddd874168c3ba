// Blocks of pseudo-random bytes with finite scales. The expected values are those of gguf-py's
// dequantisation: a hash of all of them, and four in the open to see what differs.
#include "tensor/dequantize.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "tensor/float16.h"

namespace banyan {
namespace {

constexpr int kBlocks = 5;

struct Expected {
  DType type;
  std::uint32_t seed;
  std::uint64_t hash;         // FNV-1a of the float32 values' bytes
  std::array<float, 4> some;  // values 0, 1, 17 and the last
};

const Expected kExpected[] = {
    {DType::kQ4_0,
     4u,
     0xbac89a10b6ea2c69ull,
     {-0x1.968p-5f, 0x1.0f0p-4f, -0x1.52cp-5f, 0x1.ae8p-5f}},
    {DType::kQ4_1,
     5u,
     0x1f8d3aab60786115ull,
     {-0x1.c71p-4f, -0x1.7438000p-3f, -0x1.535p-4f, -0x1.092p-4f}},
    {DType::kQ5_0,
     6u,
     0x2c5a7f48b8b3b815ull,
     {-0x1.5d58000p-3f, 0x1.4464000p-3f, -0x1.8f4p-6f, 0x1.960c000p-3f}},
    {DType::kQ5_1,
     7u,
     0x28308df738fed93eull,
     {-0x1.5b2p-6f, -0x1.f9d8000p-4f, -0x1.50bc000p-3f, 0x1.6b58000p-3f}},
    {DType::kQ8_0,
     8u,
     0x99eef9c76b10fa55ull,
     {0x1.8e1c000p-1f, -0x1.a31p-4f, -0x1.5ef7000p-1f, -0x1.3088000p-2f}},
    {DType::kQ2_K,
     9u,
     0x13c3ad1fb2a5b93aull,
     {0x1.08ba000p-2f, 0x1.08ba000p-2f, 0x1.4268000p-4f, -0x1.d074000p-2f}},
    {DType::kQ3_K,
     10u,
     0xab760cb9323965e8ull,
     {-0x1.904p-5f, -0x0.0p+0f, 0x1.5e38000p-4f, -0x1.4604000p-1f}},
    {DType::kQ4_K,
     11u,
     0x7b10c7ef669b7ee5ull,
     {0x1.2758800p+1f, 0x1.9500800p+2f, 0x1.eac7400p+2f, 0x1.d09fe00p+2f}},
    {DType::kQ5_K,
     12u,
     0x7b6f6c4e24e88ad0ull,
     {0x1.3d0ea00p+3f, 0x1.213c000p+0f, 0x1.2773000p+3f, -0x1.3963800p+1f}},
    {DType::kQ6_K,
     13u,
     0x718cb460dd008c2eull,
     {-0x1.0461800p+0f, 0x1.b8a5000p-1f, -0x1.e949800p+1f, -0x1.9059c00p+1f}},
    {DType::kIQ4_NL,
     14u,
     0xedf1728453c1be23ull,
     {0x1.531p-4f, -0x1.deed000p-1f, 0x1.5fc7000p-1f, 0x1.4d6p+0f}},
};

// Where the half-precision scales of a block lie.
std::vector<size_t> HalfOffsets(DType type) {
  switch (type) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ2_K:
      return {80, 82};
    case DType::kQ3_K:
      return {108};
    case DType::kQ6_K:
      return {208};
    default:
      return {0};
  }
}

std::vector<std::byte> RandomBlocks(DType type, std::uint32_t seed) {
  const size_t size = static_cast<size_t>(TraitsOf(type).bytes);
  std::vector<std::byte> bytes(size * kBlocks);
  for (std::byte& b : bytes) {
    seed = seed * 1664525u + 1013904223u;
    b = static_cast<std::byte>(seed >> 24);
  }
  for (size_t block = 0; block < kBlocks; ++block) {
    for (const size_t offset : HalfOffsets(type)) {
      std::byte& top = bytes[block * size + offset + 1];
      top = (top & std::byte{0x83}) | std::byte{0x20};
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
  size_t Count() const { return static_cast<size_t>(TraitsOf(GetParam().type).block) * kBlocks; }
};

TEST_P(QuantizedType, EqualsGgufPy) {
  const auto bytes = RandomBlocks(GetParam().type, GetParam().seed);
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
  const auto bytes = RandomBlocks(type, GetParam().seed + 1000);
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

}  // namespace
}  // namespace banyan
