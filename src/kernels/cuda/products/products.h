// bf16 matrix products: for every weight shape and range of row counts the fastest of several ways
// whose bits are those of our own chain of matrix instructions. So a row's result does not depend
// on which way its batch happened to get.
//
// Ways: algorithms of cuBLASLt (product_library.h), our kernels for few rows (few_rows.h) and for
// many with SwiGLU (many_rows.h), and the plain chain itself (product_kernels.h). A decision is
// made at the first product of a shape and range: from the file of this machine, from a table that
// ships with the program (decisions/), by measuring (0.1 to 0.2 s) while the budget for that lasts,
// or else by a guess, which is measured once there is budget again. Wherever a way comes from, it
// serves only after its bits were compared in this process: files, tables and guesses save time and
// decide nothing else. How a way is measured is in product_selection.cc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/decision_file.h"
#include "kernels/cuda/device/unsettled.h"
#include "kernels/cuda/products/few_rows.h"
#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/products/product_library.h"
#include "kernels/cuda/products/product_trial.h"
#include "kernels/cuda/weights/device_matrix.h"
#include "kernels/units/product_decisions.h"

namespace banyan::cuda {

// How decisions are made that no file of the machine has.
enum class Deciding {
  kSoon,         // by shipped tables and by measuring within the budget
  kByMeasuring,  // all by measuring, at once: for tools
};

struct ProductOptions {
  // Take the library's fastest way whatever its bits: a row's result may then depend on its
  // company.
  bool fast = false;
  std::filesystem::path decisions;  // file that keeps them; empty: none
  Deciding deciding = Deciding::kSoon;
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

  // What was tried so far, for tests and reports.
  struct Census {
    int decisions = 0;
    int candidates = 0, compared = 0, admitted = 0;  // ways timed, checked for bits, found equal
    int plain = 0;                                   // decisions that nothing else could serve
    int recalled = 0;                                // decisions taken from the file
    int shipped = 0;                                 // and from tables
    int guessed = 0;                                 // not measured yet when they were made
    double seconds = 0.0;                            // spent deciding
  };
  const Census& census() const { return census_; }
  // "few rows, half", "cublasLt id 66 …": what serves this product.
  std::string Serving(const DeviceMatrix& w, std::int64_t rows, ProductForm form);
  // All measured decisions, in the form of a table that ships (DecisionText).
  std::string Table() const;
  // Whether a table has a decision for the product.
  bool Ships(std::int64_t outputs, std::int64_t inner, ProductForm form, std::int64_t rows);
  // For tests: keys of the shipped table for this device whose value is no way that this version of
  // the library, and this device, know for the product.
  std::vector<std::string> IllegalShipped();

  // Guesses that were launched, and whether one may be measured now.
  std::int64_t launches() const override { return guesses_launched_; }
  bool MaySettle() const override;

 private:
  struct Way {
    enum class Kind { kPlain, kFewRows, kLibrary, kManyRows } kind = Kind::kPlain;
    RingSize ring = RingSize::kHalf;
    LibraryAlgorithm algorithm{};
  };
  struct Decision {
    Way way;
    bool guessed = false;
  };
  struct TimedWay {
    Way way;
    double seconds = 0.0;
  };
  struct Range {
    std::int64_t least, most;
  };
  using Shape = std::tuple<std::int64_t, std::int64_t, ProductForm>;  // outputs, inner, form

  static double Now();  // seconds
  static Range RangeOf(std::int64_t rows);
  std::string KeyOf(const Shape& shape, Range range) const;
  // For the file of a machine, and in words that hold for other versions of the library.
  static std::string TextOf(const Way& way);
  static std::string PortableTextOf(const Way& way);
  // Either of them for a product of this form; nothing: not such a text.
  std::optional<Way> WayOf(const std::string& text, ProductForm form);
  void OpenLibrary();
  // A decision of a file or table, when it holds here.
  std::optional<Way> Recall(const std::string& text, Range range, const DeviceMatrix& w,
                            ProductForm form);
  // Whether the way knows such products, as far as can be told without running it.
  bool CanServe(const Way& way, const ProductOperands& most, const ProductOperands& least);
  Decision MakeDecision(const Shape& shape, Range range, const DeviceMatrix& w);
  // A way with the right bits that is likely to be fast, without timing any.
  Way Guess(Range range, const DeviceMatrix& w, ProductForm form);
  // The fastest way, measured on account of the budget; nothing when there is no room for that.
  std::optional<Way> Measure(const Shape& shape, Range range, const DeviceMatrix& w);
  // Whether the way has our bits at both ends of the range, or need not have them.
  bool Admit(const Way& way, Range range, ProductTrial& trial);
  const Way& Decide(std::int64_t rows, const DeviceMatrix& w, ProductForm form);
  Way Select(Range range, const DeviceMatrix& w, ProductForm form);
  std::vector<Way> Candidates(Range range, const ProductTrial& trial, const Shape& shape);
  // The library's fastest of `timed` in clusters that are not among them.
  std::vector<Way> InOtherClusters(const std::vector<TimedWay>& timed, Range range,
                                   const ProductTrial& trial);
  // Times each way once or twice and puts it among `timed`, which stays sorted, fastest first.
  void TimeShortly(const std::vector<Way>& ways, ProductTrial& trial, std::vector<TimedWay>& timed);
  bool Run(const Way& way, const ProductOperands& operands);  // false: it will not
  // The same for forms that the way knows by itself.
  bool RunProduct(const Way& way, const ProductOperands& operands);

  std::shared_ptr<const Device> device_;
  ProductOptions options_;
  std::unique_ptr<ProductLibrary> library_;  // made at the first decision
  DecisionFile file_;                        // opened with it
  std::map<Shape, std::vector<LibraryOffer>> offers_;
  std::map<std::string, std::string> shipped_;  // of this device's tables
  // By shape and last row count of the range.
  std::map<std::pair<Shape, std::int64_t>, Decision> decisions_;
  MeasuringBudget budget_;
  std::int64_t guesses_launched_ = 0;
  Census census_;
};

}  // namespace banyan::cuda
