// Comparing and timing ways to one bf16 product, on random rows and the real weights.
//
// Rows repeat with a period that is no multiple of any tile, so that the expected results of a few
// rows judge every row of a large product. Times are taken with the weights out of the L2 cache and
// the rows in it, between two small row kernels, as in a forward pass: how much of a launch is
// hidden behind its neighbours counts too.
#pragma once

#include <functional>
#include <memory>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/product_kernels.h"

namespace banyan::cuda {

class ProductTrial {
 public:
  // Runs a product; false when it will not.
  using Way = std::function<bool(const ProductOperands&)>;

  // For products of at most `most_rows` rows. Throws kLimit when there is no room to compare.
  ProductTrial(std::shared_ptr<const Device> device, const DeviceMatrix& w, ProductForm form,
               std::int64_t most_rows);

  // Whether all outputs equal MultiplyBF16's in every bit.
  bool HasOurBits(const Way& way, std::int64_t rows);
  // The median of `runs` runs at `most_rows` rows (of two, the better one); gives up after a run
  // that takes more than `enough` seconds. Infinity when the way will not.
  double Seconds(const Way& way, int runs, double enough);

  ProductOperands OperandsFor(std::int64_t rows) const;

 private:
  WordRows OutputRows(std::int64_t rows) const;
  void ResetOutput(std::int64_t rows);
  void RunNeighbour();

  std::shared_ptr<const Device> device_;
  const DeviceMatrix& w_;
  ProductForm form_;
  std::int64_t most_rows_;
  DeviceMemory x_;         // bf16 [most_rows, stride]
  DeviceMemory start_;     // kAdd: what is added to, [kPeriod, padded_rows]
  DeviceMemory bias_;      // kBias: [padded_rows]
  DeviceMemory expected_;  // [kPeriod, OutputStride]
  DeviceMemory found_;     // [most_rows, OutputStride]
  DeviceMemory scratch_;   // kSwiGlu: [most_rows, at least kPeriod, padded_rows]
  DeviceMemory count_;
  DeviceMemory other_;  // what displaces the weights from the cache, made at the first time taken
  DeviceMemory neighbour_;  // float32 [stride]
};

}  // namespace banyan::cuda
