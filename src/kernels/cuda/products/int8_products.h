// Products of rows and weights in 8 bits (precision w8a8, kernels/int8.h). Sums of products of
// codes are exact integers, so every kernel here gives the same bits for a row, whatever the other
// rows, the tiles and the order of the sum. No comparison is needed; only speed decides which one
// serves.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/cuda/weights/device_matrix.h"

namespace banyan::cuda {

// --- Kernels ------------------------------------------------------------------------------------
// REQUIRES: shape.inner is a multiple of 128 and below 2^17 (sums stay within 32 bits), codes are
// aligned to 16 bytes, outputs and out_stride are even.
struct Int8Operands {
  const std::int8_t* x = nullptr;   // [rows, inner]
  const float* x_scales = nullptr;  // [rows]
  const std::int8_t* w = nullptr;   // [outputs, inner]
  const float* w_scales = nullptr;  // [outputs]
  ProductShape shape;
  ProductForm form = ProductForm::kFloat32;
  void* out = nullptr;          // float or bf16 [rows, out_stride]
  const float* bias = nullptr;  // [outputs], for kBias
};
inline constexpr std::int64_t kMostInt8Inner = std::int64_t{1} << 17;

// One thread an output and a plain loop: what the others are compared with, and what serves where
// they cannot. Every form but kSwiGlu.
void MultiplyInt8Plain(cudaStream_t stream, const Int8Operands& operands);

// Few rows on Hopper: weights are read once, at the speed of memory (few_rows.cuh). Every form but
// kSwiGlu.
constexpr std::int64_t kMostInt8FewRows = 32;
bool Int8FewRowsCanServe(const Int8Operands& operands);
void MultiplyInt8FewRows(cudaStream_t stream, const Int8Operands& operands, RingSize ring);

// Many rows on Hopper, in tiles of `slabs` times 64 rows and `width` outputs; every form, the
// widest tile SwiGLU alone. A block multiplies and stores one tile after another, or two warpgroups
// alternate tiles (ping-pong): one stores while the other multiplies.
struct Int8Tile {
  int slabs = 0, width = 0;
  bool ping_pong = false;

  bool Serves(ProductForm form) const { return width <= 128 || form == ProductForm::kSwiGlu; }
  friend bool operator==(const Int8Tile&, const Int8Tile&) = default;
};
inline constexpr Int8Tile kInt8Tiles[] = {{1, 64}, {2, 64}, {2, 128}, {2, 128, true}, {4, 192}};
bool Int8ManyRowsCanServe(const Int8Operands& operands);
// The tile with the least time by a model of the device.
Int8Tile Int8TileFor(const Int8Operands& operands, int multiprocessors);
// REQUIRES: the tile serves the form.
void MultiplyInt8ManyRows(cudaStream_t stream, const Int8Operands& operands, Int8Tile tile);

// --- Any number of rows -------------------------------------------------------------------------
// Weights of any form as codes with a scale per output; null where there is no such form
// (float32, too many columns). `matrix` may go in the order of the stream.
std::shared_ptr<const DeviceMatrix> QuantizeMatrix(const std::shared_ptr<const Device>& device,
                                                   const DeviceMatrix& matrix);

struct Int8Target {
  ProductForm form = ProductForm::kFloat32;
  void* out = nullptr;
  const float* bias = nullptr;       // [w.padded_rows], for kBias
  __nv_bfloat16* scratch = nullptr;  // [rows, w.padded_rows], for kSwiGlu
  Int8Rows codes = {};               // kSwiGlu: where the outputs' codes may be left as well
};
// Leaves W x[r] in `target` as its form says. Launches only. True: the outputs' codes are there
// too.
bool MultiplyInt8(const Device& device, const Int8Rows& x, std::int64_t rows, const DeviceMatrix& w,
                  const Int8Target& target);

// Without output and bias.
Int8Operands Int8OperandsOf(const Int8Rows& x, std::int64_t rows, const DeviceMatrix& w,
                            ProductForm form);

}  // namespace banyan::cuda
