// For tests of the inner loops on every path. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_path.h"

namespace banyan {

// Numbers that are the same everywhere.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed * 2654435761u + 1) {}
  std::uint32_t Bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  int Below(int end) { return static_cast<int>(Bits() % static_cast<std::uint32_t>(end)); }
  float Uniform() {
    return static_cast<float>(static_cast<int>(Bits() >> 8) - (1 << 23)) * 0x1p-23f;
  }
  std::vector<float> Floats(size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = Uniform();
    return values;
  }

 private:
  std::uint64_t state_;
};

inline void ExpectSameBits(const std::vector<float>& found, const std::vector<float>& expected,
                           const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(found[i]) && std::isnan(expected[i])) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(found[i]), std::bit_cast<std::uint32_t>(expected[i]))
        << what << ", value " << i << ": " << found[i] << " and " << expected[i];
  }
}

// Of this build and processor.
inline std::vector<const CpuPath*> SupportedPaths() {
  std::vector<const CpuPath*> found;
  for (const CpuPath& path : CpuPaths()) {
    if (path.supported()) found.push_back(&path);
  }
  return found;
}

}  // namespace banyan
