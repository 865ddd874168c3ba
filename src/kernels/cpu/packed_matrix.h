// Weights of the cpu backend: repacked at load into panels of 16 outputs, so that one row of x
// meets 16 outputs per instruction and every output is one chain over the columns.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "base/unset_vector.h"
#include "kernels/cpu/loops/integer_kernels.h"
#include "kernels/cpu/loops/vector_kernels.h"
#include "kernels/kernels.h"

namespace banyan {

// A codebook: 16 int8 values that nibbles index.
struct Codebook {
  explicit Codebook(std::span<const std::int8_t> codes) {
    for (size_t i = 16; i-- > 0;) {  // of equal values the first index counts
      values[i] = codes[i];
      index[static_cast<std::uint8_t>(codes[i])] = static_cast<std::uint8_t>(i);
    }
  }
  std::array<std::int8_t, 16> values{};
  std::array<std::uint8_t, 256> index{};  // of a value, taken as an unsigned byte
};

// How the bytes or nibbles of quantized weights are laid out in a panel (integer_kernels.h).
struct QuantizedLayout {
  int interleave = 4;
  bool nibbles = false;
  int offset = 0;                  // added to stored values: at most 128
  const Codebook* book = nullptr;  // nibbles index it; null: they are values

  std::int64_t PanelBytes(std::int64_t columns) const {
    return columns * kCodeLanes / (nibbles ? 2 : 1);
  }
  // Stores 32 values of one output: block `block` of its row.
  void PutBlock(std::uint8_t* panel, std::int64_t block, int lane, const std::int8_t* codes) const {
    std::uint8_t stored[kBlockColumns];
    for (int i = 0; i < kBlockColumns; ++i) {
      stored[i] = book != nullptr ? book->index[static_cast<std::uint8_t>(codes[i])]
                                  : static_cast<std::uint8_t>(codes[i] + offset);
    }
    const int columns = nibbles ? kHalfColumns : kBlockColumns;
    if (nibbles) {
      for (int i = 0; i < kHalfColumns; ++i) {
        stored[i] = static_cast<std::uint8_t>((stored[i] & 15) | (stored[kHalfColumns + i] << 4));
      }
    }
    std::uint8_t* out = panel + block * columns * kCodeLanes + lane * interleave;
    for (int i = 0; i < columns; i += interleave) {
      std::memcpy(out + i * kCodeLanes, stored + i, static_cast<size_t>(interleave));
    }
  }
  void GetBlock(const std::uint8_t* panel, std::int64_t block, int lane, std::int8_t* codes) const {
    std::uint8_t stored[kBlockColumns];
    const int columns = nibbles ? kHalfColumns : kBlockColumns;
    const std::uint8_t* in = panel + block * columns * kCodeLanes + lane * interleave;
    for (int i = 0; i < columns; i += interleave) {
      std::memcpy(stored + i, in + i * kCodeLanes, static_cast<size_t>(interleave));
    }
    if (nibbles) {
      for (int i = 0; i < kHalfColumns; ++i) {
        stored[kHalfColumns + i] = stored[i] >> 4;
        stored[i] &= 15;
      }
    }
    for (int i = 0; i < kBlockColumns; ++i) {
      codes[i] =
          book != nullptr ? book->values[stored[i]] : static_cast<std::int8_t>(stored[i] - offset);
    }
  }

 private:
  static constexpr int kCodeLanes = 16;
};

enum class PanelType {
  kF32,
  kF16,
  kBF16,
  kQuantized,  // 8 or 4 bits with scales, multiplied with Int8Rows (integer_kernels.h)
};

// Consecutive output rows of one storage type. Panel p holds rows 16 p … 16 p + 15 of the part;
// missing rows of the last panel are zero.
struct PackedPart {
  PanelType type = PanelType::kF32;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  UnsetVector<float> f32;           // [panels, columns, 16]
  UnsetVector<std::uint16_t> half;  // [panels, columns, 16], f16 or bf16
  UnsetVector<std::uint8_t> codes;  // panels as `layout` says
  QuantizedLayout layout;
  UnsetVector<float> scales, minima;  // [panels, columns / group, 16]; minima may be empty
  int group = 0;

  std::int64_t panels() const { return (rows + kPanelWidth - 1) / kPanelWidth; }
};

class PackedMatrix : public Matrix {
 public:
  bool quantized() const;

  std::vector<PackedPart> parts;  // by first_row, covering all rows
};

struct PackOptions {
  // Mixed precision: 16-bit and quantised tensors stay in their form; otherwise everything becomes
  // float32.
  bool keep_compact = false;
  int interleave = 4, bias = 0;  // of quantized weights, see IntegerKernels
};

// See Kernels::LoadMatrix for `row_order`.
std::shared_ptr<PackedMatrix> PackMatrix(std::span<const HostTensor* const> parts,
                                         std::span<const std::int32_t> row_order,
                                         PackOptions options, ThreadPool& pool);

// Writes row `row` to `out` [w.columns] as float32, for embeddings.
void UnpackRow(const PackedMatrix& w, std::int64_t row, float* out);

}  // namespace banyan
