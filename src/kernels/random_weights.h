// Random weights as a function of (seed, row, column): the same bf16 values on every backend, made
// in any order. For benchmarks and tests; quality matters little here.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define BANYAN_HOST_DEVICE __host__ __device__
#else
#define BANYAN_HOST_DEVICE
#endif

namespace banyan {

struct RandomWeights {
  std::int64_t rows = 0, columns = 0;
  std::uint64_t seed = 0;
  float deviation = 1.0f;  // values are uniform around zero with this standard deviation
};

// Four values are made at a time, of neighbouring columns.
inline constexpr int kRandomColumns = 4;

// A function of the seed and the position of the four; splitmix64.
BANYAN_HOST_DEVICE inline std::uint64_t RandomFour(const RandomWeights& weights, std::int64_t row,
                                                   std::int64_t column) {
  const std::int64_t fours_in_row = (weights.columns + kRandomColumns - 1) / kRandomColumns;
  const std::int64_t four = row * fours_in_row + column / kRandomColumns;
  std::uint64_t x = weights.seed * 0xd1342543de82ef95ull +
                    (static_cast<std::uint64_t>(four) + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// What one unit of a 16-bit code is worth: codes are uniform in ±32768, with deviation 18918.
inline float RandomUnit(const RandomWeights& weights) { return weights.deviation / 18918.0f; }

// Before rounding to bf16; one product, so that every compiler gives the same bits.
BANYAN_HOST_DEVICE inline float RandomValue(std::uint64_t four, int index, float unit) {
  const auto code = static_cast<std::int16_t>(static_cast<std::uint16_t>(four >> (16 * index)));
  return static_cast<float>(code) * unit;
}

}  // namespace banyan
