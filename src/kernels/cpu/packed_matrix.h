// Weights of the cpu backend: repacked at load into panels of 16 outputs, so that one row of x
// meets 16 outputs per instruction and every output is one chain over the columns.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/code_panels.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/kernels.h"

namespace banyan {

enum class PanelType {
  kF32,
  kF16,
  kBF16,
  kCodes,  // 8 or 4 bits with scales, multiplied with coded rows (integer_kernels.h)
};

// Consecutive output rows of one storage type. Panel p holds rows 16 p … 16 p + 15 of the part;
// missing rows of the last panel are zero.
struct PackedPart {
  PanelType type = PanelType::kF32;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::vector<float> f32;           // [panels, columns, 16]
  std::vector<std::uint16_t> half;  // [panels, columns, 16], f16 or bf16
  std::vector<std::uint8_t> codes;  // panels as `layout` says
  CodeLayout layout;
  std::vector<float> scales, minima;  // [panels, columns / group, 16]; minima may be empty
  int group = 0;

  std::int64_t panels() const { return (rows + kPanelWidth - 1) / kPanelWidth; }
};

class PackedMatrix : public Matrix {
 public:
  bool has_codes() const;

  std::vector<PackedPart> parts;  // by first_row, covering all rows
};

struct PackOptions {
  // Mixed precision: 16-bit and quantised tensors stay in their form; otherwise everything becomes
  // float32.
  bool keep_compact = false;
  int interleave = 4, bias = 0;  // of codes, see IntegerKernels
};

// See Kernels::LoadMatrix for `row_order`.
std::shared_ptr<PackedMatrix> PackMatrix(std::span<const HostTensor* const> parts,
                                         std::span<const std::int32_t> row_order,
                                         PackOptions options, ThreadPool& pool);

// Row `row` of the matrix as float32 values, for embeddings. out has w.columns values.
void UnpackRow(const PackedMatrix& w, std::int64_t row, float* out);

}  // namespace banyan
