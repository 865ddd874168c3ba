// The Walsh-Hadamard transform of groups of neighbouring values, applied before values are
// quantized to int8. One outlier would make the scale of a whole row large; the transform
// distributes it over all values of its group. It is a rotation and its own inverse: a scalar
// product whose sides are both transformed keeps its value, but for rounding.
//
// Operations are IEEE's in this order, so that host and device give the same bits.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/random_weights.h"  // BANYAN_HOST_DEVICE

namespace banyan {

// 1 / sqrt(width) of a power of two.
BANYAN_HOST_DEVICE inline float HadamardFactor(int width) {
  if (width == 128) return 0.08838834764f;
  if (width == 64) return 0.125f;
  float factor = 1.0f;
  for (; width >= 4; width /= 4) factor *= 0.5f;
  return width == 2 ? factor * 0.7071067812f : factor;
}

// Transforms every `width` neighbours in place, pairs first. REQUIRES: `width` is a power of two
// that divides the size.
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
// Keys (after RoPE) and values are transformed before they are quantized, each head of a token by
// itself. Queries are transformed once, which leaves scores as they were. Attention sums
// transformed values; transforming its result once gives the sum of the values themselves. A stored
// key or value is the transform of code * scale.

// Width for a head: the largest power of two that divides it, at most 128. (256 is no better, and
// with 128 each lane of a warp holds four.)
BANYAN_HOST_DEVICE inline int HeadHadamardWidth(int head_dim) {
  const int power = head_dim & -head_dim;
  return power < 128 ? power : 128;
}

inline void HadamardHead(std::span<float> head) {
  HadamardTransform(head, HeadHadamardWidth(static_cast<int>(head.size())));
}

}  // namespace banyan
