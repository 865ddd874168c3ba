// Quantiles of many positive numbers in fixed memory: counts in bins that are 5 % wide.
#pragma once

#include <array>
#include <cstdint>

namespace banyan {

class Quantiles {
 public:
  // Values below a microsecond (or whatever the unit's millionth is) count as one, values above
  // 100 000 as 100 000.
  void Add(double value);
  std::int64_t count() const { return count_; }
  // The value that a part `q` (0 to 1) of those added does not exceed, within 5 %; 0: none added.
  double At(double q) const;

 private:
  static constexpr int kBins = 521;  // 1e-6 * 1.05^520 > 1e5
  std::array<std::int64_t, kBins> bins_{};
  std::int64_t count_ = 0;
};

}  // namespace banyan
