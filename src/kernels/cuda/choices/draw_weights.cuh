// Tokens of a draw (draw.cu): a token's weight, an integer, and the bin that it falls into by its
// distance to the best one. Both are functions of the token's value and the request alone.
#pragma once

#include "kernels/cuda/choices/selection.h"

namespace banyan::cuda {

inline constexpr int kBins = 2048;
inline constexpr int kGathered = kBins;     // tokens of a bin that are sorted in shared memory
inline constexpr int kRestBin = kBins - 1;  // the bin of all that weighs nothing

using Weight = unsigned long long;

// Sums over a row.
struct DrawBins {
  Weight weights[kBins];
  unsigned counts[kBins];
};

// Of one request.
struct Weighing {
  float best;
  double temperature;
  double one;           // weight of the best token
  float bins_per_unit;  // of logit

  __device__ Weighing(const SelectionCall& call, const SelectionRequest& request, float best_value)
      : best(best_value), temperature(static_cast<double>(request.temperature)) {
    // The sum over the vocabulary stays below 2^63.
    int bits = 62;
    while ((std::int64_t{1} << (62 - bits)) < call.logits.vocabulary) --bits;
    one = static_cast<double>(Weight{1} << bits);
    // Beyond exp(-bits * ln 2) of the best one's, a weight is nothing.
    bins_per_unit = static_cast<float>(kRestBin / (bits * 0.6931471805599453 * temperature));
  }

  // Rises as the value falls. REQUIRES: x above minus infinity, not above `best`.
  __device__ int BinOf(float x) const {
    if (x == best) return 0;
    const float place = (best - x) * bins_per_unit;
    return place < static_cast<float>(kRestBin) ? static_cast<int>(place) : kRestBin;
  }
  __device__ double ShareOf(float x) const {
    // Equal logits have equal weight even where both are infinite.
    return x == best ? 1.0 : exp((static_cast<double>(x) - best) / temperature);
  }
  __device__ Weight WeightOf(float x) const { return static_cast<Weight>(ShareOf(x) * one); }
};

__device__ inline Weight WarpSum(Weight x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

}  // namespace banyan::cuda
