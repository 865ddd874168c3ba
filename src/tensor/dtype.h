// Element types as files store them. A type is a run of fixed-size blocks: `block` values in
// `bytes` bytes (plain types have blocks of one value). A row of a matrix is a whole number of
// blocks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace banyan {

enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,  // plain
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,  // blocks of 32
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ8_K,    // super-blocks of 256
  kIQ4_NL,  // blocks of 32 with a fixed code book
  kIQ1_S,
  kIQ1_M,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kIQ4_XS,  // super-blocks of 256 with fixed code books
  kTQ1_0,
  kTQ2_0,  // super-blocks of 256 of -1, 0 and 1
  kMXFP4,  // blocks of 32 four-bit floats with a power of two
  kF8_E4M3,
  kI8,  // codes of one byte; the scales that make them weights are a tensor of their own
};

struct DTypeTraits {
  const char* name;  // as GGUF spells it: "Q4_K"
  int block;         // values per block
  int bytes;         // bytes per block
};

const DTypeTraits& TraitsOf(DType type);

// Whether values of this type are codes, meaningless without scales that another tensor holds.
inline bool NeedsScales(DType type) { return type == DType::kF8_E4M3 || type == DType::kI8; }

// Bytes of one row of `columns` values. REQUIRES: columns is a multiple of the block.
size_t RowBytes(DType type, std::int64_t columns);

}  // namespace banyan
