// Element types and tensors as files store them. A type is a run of fixed-size blocks: `block`
// values in `bytes` bytes (plain types have blocks of one value). A row of a matrix is a whole
// number of blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

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

// A named tensor as a file stores it: a view of bytes that something else (a mapped file) owns.
struct HostTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t>
      shape;  // outermost first: [rows, columns] for a matrix, any file format
  std::span<const std::byte> bytes;  // exactly the bytes that shape and dtype need

  std::int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  std::int64_t rows() const {  // product of all but the last dimension
    std::int64_t n = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i) n *= shape[i];
    return n;
  }
};

// "[64, 160]", for messages.
std::string ShapeText(std::span<const std::int64_t> shape);

}  // namespace banyan
