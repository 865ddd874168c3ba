// Rows in 8 bits: codes of -127 .. 127 and one float32 scale a row, for weights (a row is an
// output) and for activations alike (precision w8a8). A value is about code * scale; the sum of
// products of codes is an exact integer, so the order of the sum does not matter.
//
//   scale = largest magnitude / 127     code = value * (1 / scale), to the nearest, ties to even
//   a row of zeros (or below 127 * 2^-126): scale 0, codes 0
//   a row with a value that is not finite:  scale NaN, codes 0: its products are NaN
//
// Activations have few values far larger than the rest, for which a row's scale must be large.
// Therefore rows are spread (spread.h) before they become codes, activations and weights alike:
// every 128 columns, 64 where the row has no such number. Products stay what they were, but for the
// rounding to codes.
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

// How many neighbours are spread over each other; 1: the row stays as it is.
BANYAN_HOST_DEVICE inline int HadamardWidth(std::int64_t columns) {
  return columns % 128 == 0 ? 128 : columns % 64 == 0 ? 64 : 1;
}

// A whole row in place.
inline void HadamardRow(std::span<float> row) {
  HadamardTransform(row, HadamardWidth(static_cast<std::int64_t>(row.size())));
}

struct Int8Scale {
  float scale = 0.0f;
  float inverse = 0.0f;  // what values are multiplied with; 0: all codes are 0
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

// What stands for an exact sum of products of codes: rounded to float32, then times both scales.
BANYAN_HOST_DEVICE inline float DequantizeSum(std::int32_t sum, float row_scale,
                                              float output_scale) {
  return static_cast<float>(sum) * (row_scale * output_scale);
}

}  // namespace banyan
