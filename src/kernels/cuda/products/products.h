// bf16 matrix products: for every weight shape and range of row counts the fastest of several
// candidates (product_selection.h) whose bits are those of our own chain of matrix instructions. So
// a row's result does not depend on which candidate its batch happened to get.
//
// A decision is made at the first product of a shape and range: from the file of this machine, from
// a table that ships with the program (decisions/), by measuring (0.1 to 0.2 s) while the budget
// for that lasts, or else by a guess, which is measured once there is budget again. Wherever a
// candidate comes from, it serves only after its bits were compared in this process: files, tables
// and guesses save time and decide nothing else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/decision_file.h"
#include "kernels/cuda/device/timing.h"
#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/products/product_selection.h"
#include "kernels/cuda/weights/device_matrix.h"
#include "kernels/units/product_decisions.h"

namespace banyan::cuda {

// How decisions are made that no file of the machine has.
enum class Deciding {
  kSoon,         // by shipped tables and by measuring within the budget
  kByMeasuring,  // all by measuring, at once: for tools
};

struct ProductOptions {
  // Take the library's fastest algorithm whatever its bits: a row's result may then depend on the
  // other rows of its batch.
  bool fast = false;
  std::filesystem::path decisions;  // file that keeps them; empty: none
  Deciding deciding = Deciding::kSoon;
  bool of_shard = false;  // others of this process decide for it, and it for them
};

class Products : public Unsettled {
 public:
  explicit Products(std::shared_ptr<const Device> device, ProductOptions options = {});

  struct Target {
    ProductForm form = ProductForm::kFloat32;
    void* out = nullptr;
    const float* bias = nullptr;       // [w.padded_rows], for kBias
    __nv_bfloat16* scratch = nullptr;  // [rows, w.padded_rows], for kSwiGlu
  };
  // Leaves W x[r] in `target` as its form says. x has rows of w.stride elements, the target rows of
  // OutputStride elements, all of a product's written. After the first call for a shape, form and
  // range of rows it only launches: it neither measures nor allocates nor waits, so it can be
  // recorded.
  void Multiply(const __nv_bfloat16* x, std::int64_t rows, const DeviceMatrix& w,
                const Target& target);

  using Census = ProductCensus;
  const Census& census() const { return census_; }
  // "few rows, half", "cublasLt id 66 …": what serves this product.
  std::string Serving(const DeviceMatrix& w, std::int64_t rows, ProductForm form);
  // All measured decisions, in the form of a table that ships (DecisionText).
  std::string Table() const;
  // Whether a table has a decision for the product.
  bool Ships(std::int64_t outputs, std::int64_t inner, ProductForm form, std::int64_t rows);
  // For tests: keys of the shipped table for this device whose value is no candidate that this
  // version of the library, and this device, know for the product.
  std::vector<std::string> IllegalShipped();

  // Guesses that were launched, and whether one may be measured now.
  std::int64_t launches() const override { return guesses_launched_; }
  bool MaySettle() const override;

 private:
  struct Decision {
    ProductCandidate candidate;
    bool guessed = false;
  };

  static RowRange RangeOf(std::int64_t rows);
  std::string KeyOf(const MatrixShape& shape, RowRange range) const;
  void OpenLibrary();
  const ProductCandidate& Decide(std::int64_t rows, const DeviceMatrix& w, ProductForm form);
  Decision MakeDecision(const MatrixShape& shape, RowRange range, const DeviceMatrix& w);
  // What another shard decided, when it holds here.
  std::optional<Decision> OfOtherShard(const std::string& key, RowRange range,
                                       const DeviceMatrix& w, ProductForm form);
  // A decision of a file or table, when it holds here.
  std::optional<ProductCandidate> Recall(const std::string& text, RowRange range,
                                         const DeviceMatrix& w, ProductForm form);
  void TellOtherShards(const std::string& key, const Decision& decision) const;
  void Settle(const MatrixShape& shape, RowRange range, const DeviceMatrix& w, Decision& guess);
  // The fastest candidate, measured on account of the budget; nothing when there is no room for
  // that.
  std::optional<ProductCandidate> Measure(const MatrixShape& shape, RowRange range,
                                          const DeviceMatrix& w);

  std::shared_ptr<const Device> device_;
  ProductOptions options_;
  Census census_;
  ProductCandidates candidates_;  // opened at the first decision
  ProductSelection selection_;
  DecisionFile file_;                           // opened with the candidates
  std::map<std::string, std::string> shipped_;  // of this device's tables
  // By shape and last row count of the range.
  std::map<std::pair<MatrixShape, std::int64_t>, Decision> decisions_;
  MeasuringBudget budget_;
  std::int64_t guesses_launched_ = 0;
};

}  // namespace banyan::cuda
