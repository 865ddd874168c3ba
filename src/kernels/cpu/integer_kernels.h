// Products of 8-bit activations with quantised weights, as one table of functions per instruction
// set. Every path gives the same bits: sums of products of codes are exact integers, and what is
// added in floating point is one chain of fused multiply-adds over the groups of columns in order.
//
//   sum = 0
//   for every group g of columns (16 or 32, as the weights have scales):
//     sum = fma(float(Σ code_w * code_x), scale_w[g] * scale_x[block of g], sum)
//     sum = fma(-minimum_w[g], float(Σ code_x) * scale_x[block of g], sum)   (where there are any)
#pragma once

#include <cstdint>

namespace banyan {

inline constexpr int kBlockColumns = 32;  // activations of a row that share a scale
inline constexpr int kHalfColumns = 16;   // columns that have a sum of codes

// Rows of activations: value = scale * code. A block with a value that is not finite has the scale
// NaN and codes zero, so that all outputs of its row are NaN.
struct CodedRows {
  const std::int8_t* codes = nullptr;  // [rows, columns], -127 … 127
  const float* scales = nullptr;       // [rows, columns / 32]
  const std::int32_t* sums = nullptr;  // [rows, columns / 16] of codes
};

// out[r][16 p + j] as above. Weight codes stand in panels of 16 outputs, in blocks of 32 columns.
// Bytes: [block][32 / n][16 outputs][n columns] with n = IntegerKernels::interleave. Nibbles: the
// same for the block's first 16 columns in the lower halves of bytes, and for its last 16 in the
// upper ones; `offset` is what was added to codes to make them positive.
struct IntegerProduct {
  CodedRows x;  // of the first row
  int rows = 0;
  int columns = 0;  // a multiple of 32
  const std::uint8_t* panels = nullptr;
  std::int64_t panel_stride = 0;  // bytes
  int panel_count = 0;
  bool nibbles = false;
  int offset = 0;
  int group = 32;                   // 16 or 32
  const float* scales = nullptr;    // [panels, columns / group, 16]
  const float* minima = nullptr;    // the same shape, or null
  std::uint8_t* scratch = nullptr;  // [16 * columns]; may be null without nibbles
  float* out = nullptr;             // [rows, 16 * panel_count], rows out_stride apart
  std::int64_t out_stride = 0;      // floats
};

struct IntegerKernels {
  int interleave;  // columns of one output that stand together: 4 or 8
  int rows_together, panels_for_row;
  void (*product)(const IntegerProduct&);
};

}  // namespace banyan
