// Products of int8 activations with quantised weights, as one table of functions per instruction
// set. All give the same bits: sums of products of codes are exact integers, and the floating-point
// part is one chain of fused multiply-adds over the groups of columns in order.
//
//   sum = 0
//   for every group g of columns (16 or 32, those that share a scale of the weights):
//     sum = fma(float(Σ code_w * code_x), scale_w[g] * scale_x[block of g], sum)
//     sum = fma(-minimum_w[g], float(Σ code_x) * scale_x[block of g], sum)   (where there are any)
#pragma once

#include <cstdint>

namespace banyan {

inline constexpr int kBlockColumns = 32;  // activations of a row that share a scale
inline constexpr int kHalfColumns = 16;   // half a block, with its own sum of codes
inline constexpr int kNibbleOffset = 8;   // added to codes of four bits that may be negative

// Rows of activations: value = scale * code. A block with a value that is not finite has the scale
// NaN and codes zero, so that all outputs of its row are NaN. Rows are stored in groups of
// IntegerKernels::rows_together, the last one smaller, so that a tile of rows reads contiguous
// memory for a block of columns. Of a group of n rows:
//
//   codes   [blocks][n][32], -127 … 127
//   scales  [blocks][n]
//   sums    [blocks][n] each: float(Σ codes) * scale, of the block, its first and its second half
//   starts  [blocks][n] each: -kernels.start_unit * Σ codes, of the same
struct Int8Rows {
  const std::int8_t* codes = nullptr;
  const float* scales = nullptr;
  const float* sums[3] = {};
  const std::int32_t* starts[3] = {};

  // Without the first `row_blocks` blocks of rows. Always inlined, as files of several instruction
  // sets include this.
  [[gnu::always_inline]] Int8Rows From(std::int64_t row_blocks) const {
    Int8Rows from = *this;
    from.codes += row_blocks * kBlockColumns;
    from.scales += row_blocks;
    for (int i = 0; i < 3; ++i) {
      from.sums[i] += row_blocks;
      from.starts[i] += row_blocks;
    }
    return from;
  }
};

// out[r][16 p + j] as above. Weights are in panels of 16 outputs, in blocks of 32 columns. Bytes:
// [block][32 / n][16 outputs][n columns] with n = IntegerKernels::interleave. Nibbles: the same,
// the block's first 16 columns in the lower halves of bytes, its last 16 in the upper ones. Stored
// bytes have IntegerKernels::bias added, stored nibbles `offset`.
struct IntegerProduct {
  Int8Rows x;
  int rows = 0;
  int columns = 0;  // a multiple of 32
  const std::uint8_t* panels = nullptr;
  std::int64_t panel_stride = 0;  // bytes
  int panel_count = 0;
  bool nibbles = false;
  int offset = 0;
  // Codebook of 16 values that nibbles index; null: nibbles are values.
  const std::int8_t* book = nullptr;
  int group = 32;                              // 16 or 32
  const float* scales = nullptr;               // [panels, columns / group, 16]
  const float* minima = nullptr;               // the same shape, or null
  std::uint8_t* scratch = nullptr;             // [16 * columns]; may be null without nibbles
  const std::uint8_t* next_nibbles = nullptr;  // the panel after all of these, or null
  float* out = nullptr;                        // [rows, 16 * panel_count], rows out_stride apart
  std::int64_t out_stride = 0;                 // floats
  bool add = false;                            // out += the product
  // Memory of the same shape as `out` that is used next and is prefetched meanwhile; null: none.
  const float* wanted = nullptr;
  std::int64_t wanted_stride = 0;  // floats
};

struct IntegerKernels {
  int interleave;  // adjacent columns of one output: 4 or 8
  int bias;        // added to stored bytes of weights
  int start_unit;  // `bias`, or where that is zero the offset of nibbles
  int rows_together;
  void (*product)(const IntegerProduct&);
};

}  // namespace banyan
