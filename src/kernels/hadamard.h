// Values spread over each other before they become 8-bit codes: groups of neighbours are replaced
// by their Walsh-Hadamard transform, sums and differences of all of them over the square root of
// their number. One value that is far larger than the rest would make the scale of all codes large;
// spread, it is a little of every value. The transform is a rotation and its own inverse: where
// both sides of a scalar product are spread it stays what it was, but for rounding.
//
// Operations are IEEE's in this order, so that host and device give the same bits.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/random_weights.h"  // BANYAN_HOST_DEVICE

namespace banyan {

// 1 / sqrt(width) of a power of two; the usual ones at once.
BANYAN_HOST_DEVICE inline float HadamardFactor(int width) {
  if (width == 128) return 0.08838834764f;
  if (width == 64) return 0.125f;
  float factor = 1.0f;
  for (; width >= 4; width /= 4) factor *= 0.5f;
  return width == 2 ? factor * 0.7071067812f : factor;
}

// Every `width` neighbours in place, pairs first. REQUIRES: a power of two that divides the size.
inline void HadamardTransform(std::span<float> row, int width) {
  if (width == 1) return;
  for (size_t apart = 1; apart < static_cast<size_t>(width); apart *= 2) {
    for (size_t begin = 0; begin < row.size(); begin += 2 * apart) {
      for (size_t i = begin; i < begin + apart; ++i) {
        const float low = row[i], high = row[i + apart];
        row[i] = low + high;
        row[i + apart] = low - high;
      }
    }
  }
  const float factor = HadamardFactor(width);
  for (float& value : row) value *= factor;
}

// --- Heads of keys and values of KvType::kQ8 -----------------------------------------------------
// Keys (after their rotation by position) and values are spread before they become codes, each head
// of a token by itself. Queries are spread once, so that scores stay what they were; attention sums
// spread values, and its result is spread once, which gives back the sum of the values themselves.
// Whoever wants a key or a value as a number spreads code * scale.

// How many neighbours of a head: the largest power of two that divides it, at most 128. (256 are no
// better, and 128 are what a warp holds four each.)
BANYAN_HOST_DEVICE inline int HeadHadamardWidth(int head_dim) {
  const int power = head_dim & -head_dim;
  return power < 128 ? power : 128;
}

inline void HadamardHead(std::span<float> head) {
  HadamardTransform(head, HeadHadamardWidth(static_cast<int>(head.size())));
}

}  // namespace banyan
