// float32 values → stored blocks, for weights that are to be kept in fewer bits than their file
// has.
#pragma once

#include <cstddef>
#include <span>

namespace banyan {

// As Q8_0: blocks of 32 values with a 16-bit scale and 8-bit codes. A value changes by at most half
// of its block's scale, which is the block's largest magnitude over 127, rounded to 16 bits. False,
// with `out` undefined, when a value or a scale is not finite there.
// REQUIRES: whole blocks; out has RowBytes(DType::kQ8_0, values.size()) bytes.
bool QuantizeQ8_0(std::span<const float> values, std::span<std::byte> out);

}  // namespace banyan
