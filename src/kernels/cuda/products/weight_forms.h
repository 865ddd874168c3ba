// Weights in the form that the options ask for, and the operations that read them whatever their
// form: products and the embedding. How a form is made and multiplied stands in files of its own
// (device_matrix.h, products.h, quantised_products.h); here is which of them serves.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/thread_pool.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/products/products.h"
#include "kernels/cuda/products/quantised_products.h"
#include "kernels/cuda/weights/device_matrix.h"
#include "kernels/kernels.h"

namespace banyan::cuda {

class WeightForms {
 public:
  // `staging` must outlive this.
  WeightForms(std::shared_ptr<const Device> device, const KernelOptions& options, Staging& staging);

  // As the functions of Kernels.
  void Expect(std::int64_t weights);
  std::shared_ptr<const Matrix> Load(const MatrixSource& source);
  std::shared_ptr<const Matrix> MakeRandom(const RandomWeights& weights);
  std::shared_ptr<const Matrix> ForProducts(std::shared_ptr<const Matrix> matrix);
  std::shared_ptr<const Vector> LoadVector(std::span<const float> values);

  // out[r] = row tokens[r] of an embedding, float32, of which `table` has rows
  // [first, first + table.rows); other rows of `out` stay.
  void Embed(const std::int32_t* tokens, const Matrix& table, std::int64_t first, Tensor& out);
  // The product, left in `target`, which is the memory of `out`. In float32 only kFloat32 and kAdd.
  void Multiply(const Tensor& x, const Matrix& w, const Products::Target& target,
                const Tensor& out);

  Products& products() { return products_; }

 private:
  std::shared_ptr<const Device> device_;
  bool mixed_;
  bool int8_;  // products in 8 bits
  WeightResidency residency_;
  bool quantised_;  // of types that have a quantised form, when mixed
  Staging& staging_;
  ThreadPool pool_;  // for loading
  MatrixLoader loader_;
  Products products_;
  QuantisedProducts quantised_products_;
};

}  // namespace banyan::cuda
