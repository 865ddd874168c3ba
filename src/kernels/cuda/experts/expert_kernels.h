// Mixtures of experts on the device (kernels/experts.h): launchers over device pointers. Which
// experts rows choose is known there alone, so grids are as large as any choice can need, and what
// is not needed ends at once; a recorded step finds the choices of a later one.
//
// A row's bits depend on the row alone: its experts and shares are a function of its scores, an
// output of a product is one chain over k in order wherever the row stands in a tile, and the sum
// goes through the row's experts in the order of their numbers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/cuda/weights/compact_matrix.h"
#include "kernels/experts.h"

namespace banyan::cuda {

inline constexpr int kExpertTileRows = 32;  // rows of one expert that a block multiplies

// Some rows of one expert: slots [begin, begin + count).
struct ExpertTile {
  std::int32_t expert, begin, count;
};

// Who chose whom, in device memory; a slot is a row for one of its experts.
struct ExpertRoutes {
  int rows = 0, experts = 0, chosen = 0;
  ExpertChoice* choices = nullptr;  // [rows, chosen], ordered by expert
  std::int32_t* place = nullptr;    // [rows, chosen] the slot of each
  std::int32_t* row = nullptr;      // [slots]
  ExpertTile* tiles = nullptr;
  std::int32_t* tile_count = nullptr;

  int slots() const { return rows * chosen; }
  int most_tiles() const {
    return (experts < slots() ? experts : slots()) + slots() / kExpertTileRows;
  }
};
// Bytes of all of it, for so many rows.
std::int64_t RoutesBytes(std::int64_t rows, std::int64_t chosen);
// Places the arrays in `memory`, which has RoutesBytes.
ExpertRoutes RoutesIn(void* memory, int rows, int experts, int chosen);

// Fills the routes. `scores` has rows of `stride` elements.
void RouteRows(cudaStream_t stream, const float* scores, std::int64_t stride, ExpertShares shares,
               const ExpertRoutes& routes);

// As of WeightForm, whose header the kernels need not see.
enum class ExpertForm { kF32, kBF16, kCompact };

// The same rows [first_row, first_row + rows) of a matrix of every expert.
struct ExpertMatrixPart {
  const void* weights = nullptr;          // float32 or bf16 rows, or tiles of codes
  const std::uint8_t* records = nullptr;  // of tiles
  const float* bias = nullptr;            // of the whole matrix; may be null
};
struct ExpertPart {
  ExpertForm form = ExpertForm::kF32;
  CompactForm compact = CompactForm::kQ8_0;  // of kCompact
  std::int64_t first_row = 0, rows = 0;
  std::int64_t stride = 0;                    // columns, padded as those of x
  const ExpertMatrixPart* experts = nullptr;  // [experts], in device memory
};

// out[slot] = W x (+ bias) for the part's rows. x is that of the slot's row (`by_row`) or of the
// slot itself, with rows of part.stride elements; bf16 but for float32 weights.
struct ExpertProduct {
  ExpertPart part;
  const void* x = nullptr;
  bool by_row = false;
  float* out = nullptr;
  std::int64_t out_stride = 0;
};
void MultiplyExperts(cudaStream_t stream, const ExpertRoutes& routes, const ExpertProduct& product);

// out[slot] of the two halves of x[slot]; `range` is of the output.
void GateExperts(cudaStream_t stream, const ExpertGate& gate, const float* x, std::int64_t x_stride,
                 RowLayout range, RowOutput out);

// out[r] = sum of share * x[place]; `range` is of out, x has the same stride.
void SumExperts(cudaStream_t stream, const ExpertRoutes& routes, const float* x, RowLayout range,
                float* out);

}  // namespace banyan::cuda
