// Elapsed time, and quantiles of many durations in fixed memory.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

namespace banyan {

inline double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Adds the time of a scope to a total.
class Timer {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Timer(double& total) : total_(total), start_(Clock::now()) {}
  ~Timer() { total_ += SecondsSince(start_); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  double& total_;
  Clock::time_point start_;
};

// Quantiles of positive numbers: counts in bins that are 5 % wide.
class Quantiles {
 public:
  // Values are clamped to 1e-6 ... 1e5 (seconds: a microsecond to a day).
  void Add(double value);
  void Add(const Quantiles& others);  // all of their values
  std::int64_t count() const { return count_; }
  // The `q`-quantile (0 to 1) of the values added, within 5 %; 0 when none was added.
  double At(double q) const;

 private:
  static constexpr int kBins = 521;  // 1e-6 * 1.05^520 > 1e5
  std::array<std::int64_t, kBins> bins_{};
  std::int64_t count_ = 0;
};

}  // namespace banyan
