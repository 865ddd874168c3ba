// Limits of one rendering, and errors that name the template's line. Templates come with model
// files and may be hostile: every loop and every copied byte is charged here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <utility>

#include "base/error.h"

namespace banyan::jinja {

struct Limits {
  size_t source_bytes = size_t{1} << 20;
  int nesting = 100;           // brackets, blocks and operator chains in the source
  int eval_depth = 400;        // nested evaluations, macro calls included
  int value_depth = 260;       // lists and objects inside each other
  int64_t steps = 20'000'000;  // evaluated nodes, list items, and units of kBytesPerStep
  size_t output_bytes = size_t{64} << 20;
  int64_t range_items = 100'000;  // Jinja's own sandbox limit
};

inline constexpr int64_t kBytesPerStep = 16;

struct Runtime {
  explicit Runtime(const Limits& all) : limits(all), steps_left(all.steps) {}

  Limits limits;
  int64_t steps_left;
  int line = 1;       // of the node being evaluated
  int depth = 0;      // nested evaluations now
  std::tm date = {};  // what strftime_now formats

  void Step(int64_t count = 1) {
    steps_left -= count;
    if (steps_left < 0) {
      Fail(ErrorKind::kLimit, "more than {} evaluation steps", limits.steps);
    }
  }
  // Call before copying or making `count` bytes.
  void Bytes(size_t count) {
    if (count > limits.output_bytes) {
      Fail(ErrorKind::kLimit, "a string of more than {} bytes", limits.output_bytes);
    }
    Step(static_cast<int64_t>(count) / kBytesPerStep);
  }

  template <typename... Args>
  [[noreturn]] void Fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) const {
    Throw(kind, "chat template line {}: {}", line,
          fmt::format(format, std::forward<Args>(args)...));
  }
};

// One nested evaluation: keeps the C++ stack bounded.
class DepthScope {
 public:
  explicit DepthScope(Runtime& runtime) : runtime_(runtime) {
    if (runtime.depth >= runtime.limits.eval_depth) {
      runtime.Fail(ErrorKind::kLimit, "evaluation nests deeper than {}", runtime.limits.eval_depth);
    }
    ++runtime.depth;
  }
  ~DepthScope() { --runtime_.depth; }
  DepthScope(const DepthScope&) = delete;
  DepthScope& operator=(const DepthScope&) = delete;

 private:
  Runtime& runtime_;
};

}  // namespace banyan::jinja
