// Stored values → float32, exactly as each format defines them, and float32 → Q8_0. The only place
// that knows the block layouts of the file formats; kernels repack from here at load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/host_tensor.h"

namespace banyan {

// Decodes out.size() values. REQUIRES: out.size() is a multiple of the block, bytes has
// RowBytes(type, out.size()) bytes.
void Dequantize(DType type, std::span<const std::byte> bytes, std::span<float> out);

// Some types are `scale * code - minimum` per group of `group` values with 8-bit codes: kernels
// keep that form. See QuantizedForm.
struct QuantizedForm {
  int group = 0;  // values per (scale, minimum) pair: 16 or 32; 0 = the type has no such form
  bool has_min = false;  // false: every minimum is zero
};
QuantizedForm QuantizedFormOf(DType type);

// The 16 numbers that the codes of a type can be, where these are no range: kernels may keep four
// bits that name one of them. Empty for other types.
std::span<const std::int8_t> CodeBookOf(DType type);

// Decodes one row into codes, scales and minima with value = scale * code - minimum, bit-equal to
// Dequantize when evaluated as float32 `scale * code - minimum`. codes.size() is the row length;
// scales and minima have codes.size()/group entries (minima untouched unless has_min).
void DequantizeToCodes(DType type, std::span<const std::byte> bytes, std::span<std::int8_t> codes,
                       std::span<float> scales, std::span<float> minima);

// float32 → Q8_0, for weights that are kept in fewer bits than their file has: blocks of 32 values
// with a 16-bit scale and 8-bit codes. A value changes by at most half of its block's scale, which
// is the block's largest magnitude over 127, rounded to 16 bits. False, with `out` undefined, when
// a value or a scale is not finite there. REQUIRES: whole blocks; out has RowBytes(DType::kQ8_0,
// values.size()) bytes.
bool QuantizeQ8_0(std::span<const float> values, std::span<std::byte> out);

}  // namespace banyan
