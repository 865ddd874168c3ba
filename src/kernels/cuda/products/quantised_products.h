// Products with quantised weights, whatever the number of rows: a few rows at a time straight from
// the codes, many after unpacking the matrix into a scratch that is converted weights for a moment.
// Both give the bits of converted weights, so the boundary is a matter of speed alone.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/products/products.h"
#include "kernels/cuda/weights/device_matrix.h"
#include "kernels/cuda/weights/quantised_matrix.h"

namespace banyan::cuda {

class QuantisedProducts {
 public:
  QuantisedProducts(std::shared_ptr<const Device> device, Products& products)
      : device_(std::move(device)), products_(products) {}

  // Makes room for unpacking `w`; called at load, so that products allocate nothing.
  void Reserve(const DeviceMatrix& w);
  // As Products::Multiply.
  void Multiply(const __nv_bfloat16* x, std::int64_t rows, const DeviceMatrix& w,
                const Products::Target& target);

 private:
  bool Unpacks(const DeviceMatrix& w, std::int64_t rows) const;
  void Unpack(const DeviceMatrix& w);

  std::shared_ptr<const Device> device_;
  Products& products_;
  DeviceMatrix scratch_;  // bf16; its shape is that of the newest matrix in it
};

// Products of few rows with quantised weights. operands.w is not looked at, and shape.outputs is
// w.padded_rows. Bits are those of MultiplyBF16 on the converted weights.

// At most kMostQuantisedRows rows, on every device.
inline constexpr std::int64_t kMostQuantisedRows = 32;
void MultiplyQuantised(cudaStream_t stream, const QuantisedRows& w,
                       const ProductOperands& operands);

// At most kMostRingRows rows, on Hopper, where 64 divides the columns (quantised_few_rows.cu).
// kSwiGlu in one step, where w has the rows of gate and up, each a multiple of 16.
inline constexpr std::int64_t kMostRingRows = 64;
bool QuantisedFewRowsCanServe(const QuantisedRows& w);
void MultiplyQuantisedFewRows(cudaStream_t stream, const QuantisedRows& w,
                              const ProductOperands& operands);

}  // namespace banyan::cuda
