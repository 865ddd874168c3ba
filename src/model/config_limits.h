// What no model's configuration may exceed, decoder or encoder.
#pragma once

#include <string>

#include "base/error.h"

namespace banyan {

inline constexpr int kMaxLayers = 4096;
inline constexpr int kMaxWidth = 1 << 24;  // of a hidden vector, a vocabulary, all heads together

inline void CheckRange(int value, int low, int high, const char* what, const std::string& where) {
  if (value < low || value > high) {
    Throw(ErrorKind::kFormat, "{}: {} is {}, expected {} to {}", where, what, value, low, high);
  }
}

}  // namespace banyan
