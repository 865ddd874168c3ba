// Matrix products of rows and weights in 8 bits (kernels/eight_bits.h): sums of products of codes
// are exact integers, so every kernel here gives the same bits for a row, whatever the other rows,
// the tiles and the order of the sum. No comparison is needed; what serves is a matter of speed
// alone.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/products/few_rows.h"
#include "kernels/cuda/products/product_kernels.h"

namespace banyan::cuda {

// REQUIRES: shape.inner is a multiple of 128 and below 2^17 (sums stay within 32 bits), codes are
// aligned to 16 bytes, outputs and out_stride are even.
struct CodedOperands {
  const std::int8_t* x = nullptr;   // [rows, inner]
  const float* x_scales = nullptr;  // [rows]
  const std::int8_t* w = nullptr;   // [outputs, inner]
  const float* w_scales = nullptr;  // [outputs]
  ProductShape shape;
  ProductForm form = ProductForm::kFloat32;
  void* out = nullptr;          // float or bf16 [rows, out_stride]
  const float* bias = nullptr;  // [outputs], for kBias
};
inline constexpr std::int64_t kMostCodedInner = std::int64_t{1} << 17;

// One thread an output and a plain loop: what the others are compared with, and what serves where
// they cannot. Every form but kSwiGlu.
void MultiplyCodedPlain(cudaStream_t stream, const CodedOperands& operands);

// Few rows on Hopper: weights are read once, at the speed of memory (as few_rows.h). Every form but
// kSwiGlu.
constexpr std::int64_t kMostCodedFewRows = 32;
bool CodedFewRowsCanServe(const CodedOperands& operands);
void MultiplyCodedFewRows(cudaStream_t stream, const CodedOperands& operands, RingSize ring);

// Many rows on Hopper, in tiles of `slabs` times 64 rows and `width` outputs; every form, the
// widest tile SwiGLU alone. A block multiplies and stores one tile after another, or two in turns:
// one is stored while the next one is multiplied.
struct CodedTile {
  int slabs = 0, width = 0;
  bool in_turns = false;

  bool Serves(ProductForm form) const { return width <= 128 || form == ProductForm::kSwiGlu; }
  friend bool operator==(const CodedTile&, const CodedTile&) = default;
};
inline constexpr CodedTile kCodedTiles[] = {{1, 64}, {2, 64}, {2, 128}, {2, 128, true}, {4, 192}};
bool CodedManyRowsCanServe(const CodedOperands& operands);
// The tile with the least time by a model of the device.
CodedTile CodedTileFor(const CodedOperands& operands, int multiprocessors);
// REQUIRES: the tile serves the form.
void MultiplyCodedManyRows(cudaStream_t stream, const CodedOperands& operands, CodedTile tile);

}  // namespace banyan::cuda
