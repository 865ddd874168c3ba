// Mixtures of experts on the device (kernels/experts.h): launchers over device pointers. Which
// experts rows choose is known there alone, so grids are as large as any choice can need, and what
// is not needed ends at once; a recorded step finds the choices of a later one.
//
// A row's bits depend on the row alone: its experts and shares are a function of its scores, an
// output of a product is one chain over k in order in every kernel and wherever the row stands in a
// tile (of codes: an exact integer), and the sum goes through the row's experts in the order of
// their numbers.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/cuda/weights/quantised_matrix.h"
#include "kernels/experts.h"

namespace banyan::cuda {

// How the rows of an expert are cut: an expert of at most `few` rows is a tile of one list, the
// rows of others are tiles of at most `many` in a second list.
struct ExpertTiling {
  int few = 0, many = 32;
};
inline constexpr int kFewExpertRows = 8, kPlainExpertRows = 32;
inline constexpr int kManyExpertRows = 192, kQuantisedExpertRows = 128;  // of Hopper's kernels

// Some rows of one expert: slots [begin, begin + count).
struct ExpertTile {
  std::int32_t expert, begin, count;
};
struct ExpertTiles {
  ExpertTile* tiles = nullptr;
  std::int32_t* count = nullptr;
};

// Who chose whom, in device memory; a slot is a row for one of its experts.
struct ExpertRoutes {
  int rows = 0, experts = 0, chosen = 0;
  ExpertTiling tiling;
  ExpertChoice* choices = nullptr;  // [rows, chosen], ordered by expert
  std::int32_t* place = nullptr;    // [rows, chosen] the slot of each
  std::int32_t* row = nullptr;      // [slots], for each expert in order
  ExpertTiles few, many;

  int slots() const { return rows * chosen; }
  int most_few() const {
    const int most = experts < slots() ? experts : slots();
    return tiling.few == 0 ? 0 : most;
  }
  int most_many() const {
    if (rows <= tiling.few) return 0;
    const int most = slots() / (tiling.few + 1);
    return (experts < most ? experts : most) + slots() / tiling.many;
  }
};
// Bytes of all of it, for so many rows.
std::int64_t RoutesBytes(std::int64_t rows, std::int64_t chosen);
// Places the arrays in `memory`, which has RoutesBytes.
ExpertRoutes RoutesIn(void* memory, int rows, int experts, int chosen, ExpertTiling tiling);

// ExpertRule and ExpertNumbers, as far as choices need them; the arrays may be null.
struct ShareRule {
  ExpertShares shares = ExpertShares::kOfChosen;
  float scale = 1.0f;
  const float* share_scales = nullptr;
  const float* choice_biases = nullptr;

  __host__ __device__ bool logistic() const {
    return shares == ExpertShares::kLogistic || shares == ExpertShares::kLogisticOfChosen;
  }
};
// Fills the routes. `scores` has rows of `stride` elements.
void RouteRows(cudaStream_t stream, const float* scores, std::int64_t stride, const ShareRule& rule,
               const ExpertRoutes& routes);

// As of WeightForm, whose header the kernels need not see.
enum class ExpertForm { kF32, kBF16, kQuantised, kInt8 };

// The same rows of a matrix of every expert.
struct ExpertMatrixPart {
  const void* weights = nullptr;          // float32, bf16 or int8 rows, or tiles of codes
  const std::uint8_t* records = nullptr;  // of tiles
  const float* bias = nullptr;            // of these rows; may be null
  const float* scales = nullptr;          // of these rows, for int8
};
struct ExpertPart {
  ExpertForm form = ExpertForm::kF32;
  QuantisedForm quantised = QuantisedForm::kQ8_0;  // of kQuantised
  std::int64_t first_row = 0, rows = 0;            // of the matrix
  std::int64_t stride = 0;                         // columns, padded as those of x
  const ExpertMatrixPart* experts = nullptr;       // [experts], in device memory
  const CUtensorMap* maps = nullptr;  // [experts], there too: bf16 or int8 rows in boxes of 64
};

// out[slot] = W x (+ bias) for the part's rows, as float32; or, where there is an `up` of the same
// form and size, gate(W x, Up x) as bf16, the padding of a row zero. x is that of the slot's row
// (`by_row`) or of the slot itself, with rows of part.stride elements; bf16 but for float32
// weights and for int8, where it has codes and scales as well.
struct ExpertProduct {
  ExpertPart part;
  const ExpertPart* up = nullptr;
  ExpertGate gate;
  const void* x = nullptr;
  const float* x_scales = nullptr;  // [rows or slots, as x]
  bool by_row = false;
  const void* x_of_slots = nullptr;  // x slot by slot, for kernels of many rows; not its scales
  RowOutput out;                     // one of the two
  std::int64_t out_stride = 0;
  // A kernel between this one and that of the routes lets its next one start only after its own
  // wait: the routes may be read before this one's.
  bool routes_are_there = false;
};
// The rows of tiles that Hopper's kernels of many rows can multiply; 0: none.
int MostRowsOfExpertTile(const ExpertPart& part);
void MultiplyExperts(cudaStream_t stream, const ExpertRoutes& routes, const ExpertProduct& product);

// The kernels, by lists. kBeside: the kernel before this one works on the other list and has let
// this one start after its own wait, so that nothing has to be waited for before the end.
enum class ExpertStart { kWaits, kRoutesAreThere, kBeside };
void MultiplyFewExpertRows(cudaStream_t stream, const ExpertRoutes& routes,
                           const ExpertProduct& product, ExpertStart start);
void MultiplyManyExpertRows(cudaStream_t stream, const ExpertRoutes& routes,
                            const ExpertProduct& product, ExpertStart start);
// The same for quantised weights, in a file of its own because it compiles as long as the rest.
void MultiplyManyQuantisedExpertRows(cudaStream_t stream, const ExpertRoutes& routes,
                                     const ExpertProduct& product, ExpertStart start);

// out[slot] = x[row of the slot]; rows of so many bytes, which 16 divides.
void GatherExpertRows(cudaStream_t stream, const ExpertRoutes& routes, const void* x,
                      std::int64_t row_bytes, void* out);

// out[slot] of the two halves of x[slot]; `range` is of the output.
void GateExperts(cudaStream_t stream, const ExpertGate& gate, const float* x, std::int64_t x_stride,
                 RowLayout range, RowOutput out);

// out[r] = sum of share * x[place]; `range` is of out, x has the same stride.
void SumExperts(cudaStream_t stream, const ExpertRoutes& routes, const float* x, RowLayout range,
                float* out);

}  // namespace banyan::cuda
