// Adds the time of a scope to a total.
#pragma once

#include <chrono>

namespace banyan {

class Timer {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Timer(double& total) : total_(total), start_(Clock::now()) {}
  ~Timer() { total_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  double& total_;
  Clock::time_point start_;
};

}  // namespace banyan
