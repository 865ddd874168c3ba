// Comparing and timing candidates to one bf16 product, on random rows and the real weights.
//
// Rows repeat with a period that is no multiple of any tile, so that the expected results of a few
// rows judge every row of a large product. Results that are rounded to bf16 hide most of what
// another order of the sums does to them: these are compared a second time with weights whose sums
// cancel, of which only the roundings of that order are left.
//
// Times are those of a recorded step: a CUDA graph in which the candidate stands between row
// kernels that write its rows and let it start early, with another copy of the weights each time so
// that none is in the L2 cache. So neither the host nor the clock's resolution counts, and what a
// candidate hides of its start behind its neighbour does.
#pragma once

#include <functional>
#include <memory>

#include "kernels/cuda/device/timing.h"
#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/weights/device_matrix.h"

namespace banyan::cuda {

class ProductTrial {
 public:
  // Runs a product; false when it will not.
  using Candidate = std::function<bool(const ProductOperands&)>;

  // For products of at most `most_rows` rows. This and the functions below throw kLimit when there
  // is no room to compare.
  ProductTrial(std::shared_ptr<const Device> device, const DeviceMatrix& w, ProductForm form,
               std::int64_t most_rows);

  // Whether all outputs equal MultiplyBF16's in every bit.
  bool HasOurBits(const Candidate& candidate, std::int64_t rows);
  // Of one product at `most_rows` rows and its neighbours: the median of `runs` runs (of two, the
  // better one); gives up after a run in which they take more than `enough`. Infinity when the
  // candidate will not, or cannot be recorded.
  double Seconds(const Candidate& candidate, int runs, double enough);

  ProductOperands OperandsFor(std::int64_t rows) const { return OperandsFor(w_, rows); }

 private:
  ProductOperands OperandsFor(const DeviceMatrix& w, std::int64_t rows) const;
  WordRows OutputRows(const DeviceMatrix& w, std::int64_t rows) const;
  void MakeRows();
  void MakeCancelling();
  void MakeCancelling(std::int64_t most_outputs);
  void MakeCopies();
  // What MultiplyBF16 leaves of the first rows.
  DeviceMemory Expected(const DeviceMatrix& w);
  void ResetOutput(const WordRows& range, const DeviceMemory& out);
  bool Equals(const Candidate& candidate, const DeviceMatrix& w, std::int64_t rows,
              const DeviceMemory& expected);
  void RunNeighbour();
  std::unique_ptr<LaunchGraph> Record(const Candidate& candidate);  // null: it cannot be

  std::shared_ptr<const Device> device_;
  const DeviceMatrix& w_;
  ProductForm form_;
  std::int64_t most_rows_;
  DeviceMemory rows_;       // bf16 [kPeriod, stride], the two halves of a row alike
  DeviceMemory row_index_;  // int32 [most_rows]: which of them each row of x is
  DeviceMemory x_;          // bf16 [most_rows, stride]
  DeviceMemory start_;      // kAdd: what is added to, [kPeriod, padded_rows]
  DeviceMemory bias_;       // kBias: [padded_rows]
  DeviceMemory expected_;   // [kPeriod, OutputStride]
  DeviceMemory found_;      // [most_rows, OutputStride]
  DeviceMemory scratch_;    // kSwiGlu: [most_rows, at least kPeriod, padded_rows]
  DeviceMemory count_;
  // Made when first needed: weights whose sums cancel and what is expected of them; copies of the
  // weights, or where none are needed as many bytes as displace them from the cache.
  DeviceMatrix cancelling_;
  DeviceMemory expected_cancelling_;
  DeviceMemory others_;
  std::int64_t copies_ = 0;  // in others_
  int repetitions_ = 1;      // of the product in a recording
};

}  // namespace banyan::cuda
