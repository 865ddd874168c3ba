// Stored values → float32, exactly as each format defines them. The only place that knows the block
// layouts of the file formats; kernels repack from here at load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

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

}  // namespace banyan
