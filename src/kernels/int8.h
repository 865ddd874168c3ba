// int8 rows (precision w8a8): codes of -127 .. 127 and one float32 scale per row, for weights (a
// row is an output) and activations alike. A value is about code * scale. The sum of products of
// codes is an exact integer, so its order does not matter.
//
//   scale = largest magnitude / 127     code = value * (1 / scale), to nearest, ties to even
//   a row of zeros (or below 127 * 2^-126): scale 0, codes 0
//   a row with a value that is not finite:  scale NaN, codes 0: its products are NaN
//
// Activations have a few outliers that would force a large scale. Rows of activations and weights
// are therefore Hadamard-transformed first (hadamard.h): every 128 columns, or 64 where 128 does
// not divide the row. Products keep their values, but for the rounding to codes.
//
// Operations are IEEE's in this order, so that host and device give the same bits.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "kernels/hadamard.h"
#include "kernels/random_weights.h"  // BANYAN_HOST_DEVICE

namespace banyan {

// Neighbours that are transformed together; 1: the row stays as it is.
BANYAN_HOST_DEVICE inline int HadamardWidth(std::int64_t columns) {
  return columns % 128 == 0 ? 128 : columns % 64 == 0 ? 64 : 1;
}

// Transforms a whole row in place.
inline void HadamardRow(std::span<float> row) {
  HadamardTransform(row, HadamardWidth(static_cast<std::int64_t>(row.size())));
}

struct Int8Scale {
  float scale = 0.0f;
  float inverse = 0.0f;  // values are multiplied by it; 0: all codes are 0
};

// `largest` is the largest magnitude of the row; infinite or NaN where a value is not finite.
BANYAN_HOST_DEVICE inline Int8Scale Int8ScaleOf(float largest) {
  constexpr float kMost = 3.402823466e+38f, kLeast = 1.175494351e-38f;
  if (!(largest <= kMost)) return {NAN, 0.0f};
  const float scale = largest / 127.0f;
  if (scale < kLeast) return {0.0f, 0.0f};
  return {scale, 1.0f / scale};
}

BANYAN_HOST_DEVICE inline int QuantizeInt8(float value, const Int8Scale& scale) {
  if (scale.inverse == 0.0f) return 0;
  const float code = rintf(value * scale.inverse);
  return static_cast<int>(fminf(fmaxf(code, -127.0f), 127.0f));
}

// The value of an exact sum of products of codes: rounded to float32, then times both scales.
BANYAN_HOST_DEVICE inline float DequantizeSum(std::int32_t sum, float row_scale,
                                              float output_scale) {
  return static_cast<float>(sum) * (row_scale * output_scale);
}

}  // namespace banyan
