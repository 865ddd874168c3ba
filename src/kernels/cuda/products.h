// bf16 matrix products: cuBLASLt without split-K, only with algorithms whose bits are those of our
// own chain of matrix instructions, the fastest of them per range of row counts. So a row's result
// does not depend on which algorithm its batch happened to get.
//
// Decisions are made at the first product of a shape and range (some milliseconds) and kept for the
// life of the object. Room for later: a file of them per GPU and library version.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/product_kernels.h"

namespace banyan::cuda {

class Products {
 public:
  explicit Products(std::shared_ptr<const Device> device);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // out[r] = W x[r]. x has rows of w.stride elements, out rows of w.padded_rows floats, all
  // written.
  void Multiply(const __nv_bfloat16* x, std::int64_t rows, const DeviceMatrix& w, float* out);

  // How many of the candidates of all decisions so far had the right bits, for tests and reports.
  struct Census {
    int decisions = 0, candidates = 0, admitted = 0, own = 0;
  };
  const Census& census() const { return census_; }

 private:
  // An algorithm of the library, or nothing: our own kernel.
  using Choice = std::optional<cublasLtMatmulAlgo_t>;
  struct Operands {
    const __nv_bfloat16* x;
    const __nv_bfloat16* w;
    ProductShape shape;
    float* out;
  };
  class Descriptors;

  const Choice& Decide(std::int64_t rows, const DeviceMatrix& w);
  Choice Select(std::int64_t least_rows, std::int64_t most_rows, const DeviceMatrix& w);
  std::vector<cublasLtMatmulAlgo_t> Candidates(std::int64_t least_rows, std::int64_t most_rows,
                                               const ProductShape& shape);
  bool Run(const Choice& choice, const Operands& operands);  // false: the library will not
  double Seconds(const Choice& choice, const Operands& operands);

  std::shared_ptr<const Device> device_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  DeviceMemory workspace_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, Choice> choices_;
  Census census_;
};

}  // namespace banyan::cuda
