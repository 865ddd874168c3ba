// Time that passes: since a moment, and of a scope.
#pragma once

#include <chrono>

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

}  // namespace banyan
