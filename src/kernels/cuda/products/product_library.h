// cuBLASLt as a source of candidates for bf16 products: which algorithms it offers for a shape, and
// running one of them. Nothing here says whether an algorithm's bits are right; see
// product_selection.h.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/products/product_kernels.h"
#include "kernels/units/product_decisions.h"

namespace banyan::cuda {

using LibraryAlgorithm = cublasLtMatmulAlgo_t;

enum class Splitting { kNone, kAllowed };  // of one output's sum over several workers

struct LibraryOffer {
  LibraryAlgorithm algorithm;
  std::vector<std::int64_t> proposed_for;  // row counts
};

class ProductLibrary {
 public:
  explicit ProductLibrary(std::shared_ptr<const Device> device);
  ~ProductLibrary();
  ProductLibrary(const ProductLibrary&) = delete;
  ProductLibrary& operator=(const ProductLibrary&) = delete;

  // What the library's heuristics propose for this matrix and form over many row counts, each
  // algorithm once. Asks the host only: some milliseconds.
  std::vector<LibraryOffer> Offers(const ProductShape& shape, ProductForm form,
                                   Splitting splitting);
  // The same with its blocks in clusters of other shapes, which the heuristics do not try.
  static std::vector<LibraryAlgorithm> InOtherClusters(const LibraryAlgorithm& algorithm);
  // Whether the algorithm can serve, as far as the library knows without running it.
  bool Supports(const LibraryAlgorithm& algorithm, const ProductOperands& operands);
  // False when the library will not; then nothing was done.
  bool Run(const LibraryAlgorithm& algorithm, const ProductOperands& operands);

  // "cublasLt 130001, cuda 13000, driver 13000".
  const std::string& version() const { return version_; }
  // The whole of an algorithm in hexadecimal digits, for the same version of the library, and back;
  // nothing when the text is not such.
  static std::string TextOf(const LibraryAlgorithm& algorithm);
  static std::optional<LibraryAlgorithm> AlgorithmOf(const std::string& text);
  // What the library says of an algorithm, and an algorithm for a product of this form by it;
  // nothing where this version of the library has none such.
  static AlgorithmNumbers NumbersOf(const LibraryAlgorithm& algorithm);
  std::optional<LibraryAlgorithm> AlgorithmOf(const AlgorithmNumbers& numbers, ProductForm form);

 private:
  cublasLtMatmulDesc_t OperationFor(ProductForm form, const float* bias);

  std::shared_ptr<const Device> device_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatmulDesc_t with_bias_ = nullptr;  // the same and then + bias
  DeviceMemory workspace_;
  std::string version_;
};

}  // namespace banyan::cuda
