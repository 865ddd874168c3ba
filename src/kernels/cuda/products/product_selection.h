// The candidates for a bf16 product, and the choice among them: algorithms of cuBLASLt
// (product_library.h), our kernels for few rows and for many with SwiGLU, and the plain chain
// itself (product_kernels.h). Candidates are timed, and the fastest ones compared bit by bit with
// the plain chain (product_trial.h). Which decisions are made, and when, is up to products.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/products/product_library.h"
#include "kernels/cuda/products/product_trial.h"
#include "kernels/cuda/weights/device_matrix.h"

namespace banyan::cuda {

struct ProductCandidate {
  enum class Kind { kPlain, kFewRows, kLibrary, kManyRows } kind = Kind::kPlain;
  RingSize ring = RingSize::kHalf;  // kFewRows
  LibraryAlgorithm algorithm{};     // kLibrary
};
struct TimedCandidate {
  ProductCandidate candidate;
  double seconds = 0.0;
};

// Row counts that share a decision.
struct RowRange {
  std::int64_t least, most;
};
using MatrixShape = std::tuple<std::int64_t, std::int64_t, ProductForm>;  // outputs, inner, form

// What was tried so far, for tests and reports.
struct ProductCensus {
  int decisions = 0;
  int candidates = 0, compared = 0, admitted = 0;  // timed, checked for bits, found equal
  int plain = 0;                                   // decisions that nothing else could serve
  int recalled = 0;                                // decisions taken from the file
  int shipped = 0;                                 // and from tables
  int guessed = 0;                                 // not measured yet when they were made
  double seconds = 0.0;                            // spent deciding
};

// Of a steady clock.
double SecondsNow();

// What candidates there are, what they can do, and running them.
class ProductCandidates {
 public:
  ProductCandidates(std::shared_ptr<const Device> device, Splitting splitting)
      : device_(std::move(device)), splitting_(splitting) {}

  // Opens the library. Before that only the plain candidate runs.
  void Open();
  bool is_open() const { return library_ != nullptr; }
  const std::string& library_version() const { return library_->version(); }

  // Those that may serve the rows of the range; our own first, then the library's by how near to
  // these rows its heuristics proposed them.
  std::vector<ProductCandidate> For(RowRange range, const ProductTrial& trial,
                                    const MatrixShape& shape);
  // The library's fastest of `timed` in thread block clusters that are not among them.
  std::vector<ProductCandidate> InOtherClusters(const std::vector<TimedCandidate>& timed,
                                                RowRange range, const ProductTrial& trial);
  // Whether the candidate knows such products, as far as can be told without running it.
  bool CanServe(const ProductCandidate& candidate, const ProductOperands& most,
                const ProductOperands& least);
  // False when it will not; then nothing was done.
  bool Run(const ProductCandidate& candidate, const ProductOperands& operands);

  // For the file of a machine, and in words that hold for other versions of the library.
  static std::string TextOf(const ProductCandidate& candidate);
  static std::string PortableTextOf(const ProductCandidate& candidate);
  // Either of them for a product of this form; nothing: no such text.
  std::optional<ProductCandidate> Parse(const std::string& text, ProductForm form);

 private:
  // Run for forms that the candidate knows by itself.
  bool RunProduct(const ProductCandidate& candidate, const ProductOperands& operands);

  std::shared_ptr<const Device> device_;
  Splitting splitting_;
  std::unique_ptr<ProductLibrary> library_;
  std::map<MatrixShape, std::vector<LibraryOffer>> offers_;
};

// The choice for one range of rows of a matrix.
class ProductSelection {
 public:
  // `fast`: the library's candidates need not have our bits. References must outlive this.
  ProductSelection(std::shared_ptr<const Device> device, bool fast, ProductCandidates& candidates,
                   ProductCensus& census)
      : device_(std::move(device)), fast_(fast), candidates_(candidates), census_(census) {}

  // The fastest candidate with the right bits, by measuring.
  ProductCandidate Select(RowRange range, const DeviceMatrix& w, ProductForm form);
  // One with the right bits that is likely to be fast, without timing any.
  ProductCandidate Guess(RowRange range, const DeviceMatrix& w, ProductForm form);
  // Whether the candidate has our bits at both ends of the range, or need not have them.
  bool Admit(const ProductCandidate& candidate, RowRange range, ProductTrial& trial);

 private:
  // Times each candidate once or twice and puts it among `timed`, which stays sorted, fastest
  // first.
  void TimeShortly(const std::vector<ProductCandidate>& candidates, ProductTrial& trial,
                   std::vector<TimedCandidate>& timed);

  std::shared_ptr<const Device> device_;
  bool fast_;
  ProductCandidates& candidates_;
  ProductCensus& census_;
};

}  // namespace banyan::cuda
