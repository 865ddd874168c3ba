// Decisions about matrix products as text, for the tables that ship with the program and for files
// of a machine. Independent of any device: readers must accept any value in a decision.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace banyan {

// What the numbers of a library's algorithm are, in the order of its text:
// "id 66 tile 18 stages 30 split 1 reduction 0 swizzle 0 custom 0 inner 0 cluster 5".
inline constexpr std::array<std::string_view, 9> kAlgorithmFields = {
    "id", "tile", "stages", "split", "reduction", "swizzle", "custom", "inner", "cluster"};

// An algorithm as the attributes that its library lets a program query and set: they mean the same
// in other versions of the library, or are refused there.
struct AlgorithmNumbers {
  std::array<std::int32_t, kAlgorithmFields.size()> value{};
  bool operator==(const AlgorithmNumbers&) const = default;
};

std::string TextOf(const AlgorithmNumbers& numbers);
// nullopt unless the text has exactly that form, with numbers of 0 to 65535.
std::optional<AlgorithmNumbers> AlgorithmNumbersOf(std::string_view text);

// Which product a decision is for.
struct ProductKey {
  std::int64_t outputs = 0, inner = 0;
  std::string_view form;       // "float32", "add", "bias", "bf16", "swiglu"
  std::int64_t most_rows = 0;  // the last row count of the range
  std::string_view qualifier;  // "", or what else it depends on: "fast"
};
std::string TextOf(const ProductKey& key);  // "6144 x 4096 float32, 256 rows"
// nullopt unless `text` has that form. The key refers to it.
std::optional<ProductKey> ProductKeyOf(std::string_view text);

// Seconds of a run that may be spent on measuring: an allowance at once, and later a share of the
// elapsed time. A measurement that starts within the budget may exceed it; later ones then wait.
class MeasuringBudget {
 public:
  MeasuringBudget(double allowance, double share, double now)
      : allowance_(allowance), share_(share), start_(now) {}
  bool Allows(double now) const { return spent_ <= allowance_ + share_ * (now - start_); }
  void Spend(double seconds) { spent_ += seconds; }

 private:
  double allowance_, share_, start_;
  double spent_ = 0.0;
};

}  // namespace banyan
