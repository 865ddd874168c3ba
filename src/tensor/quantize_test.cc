#include "tensor/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tensor/dequantize.h"

namespace banyan {
namespace {

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
