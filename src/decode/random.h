// Random numbers that are a function of what they are for: the same draw whatever was scheduled
// before, beside or after it.
#pragma once

#include <cstdint>

namespace banyan {

struct DrawKey {
  std::uint64_t seed = 0;
  std::uint64_t request = 0;
  std::uint64_t question = 0;
  std::uint64_t sample = 0;
  std::uint64_t position = 0;
};

// In [0, 1), 53 random bits.
double UniformOf(const DrawKey& key);

}  // namespace banyan
