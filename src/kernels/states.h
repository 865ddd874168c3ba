// Layers that keep a state instead of keys. What a path leaves behind in such a layer has one size
// however long the path is: the last inputs of a short convolution and, in some families, a matrix
// for each head, which every token lets fade and adds to.
//
// A state is computed token by token in the order of its path, with the same arithmetic for prompts
// and answers, and is float32. So its bits are a function of the path alone: not of steps, nodes or
// threads, nor of what runs beside it. Heads, channels and the columns of a matrix do not depend on
// one another; backends divide those.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/tensor.h"

namespace banyan {

enum class StateRule {
  kConvolution,  // the convolution alone: LFM2
  kDelta,        // the gated delta rule: Qwen3-Next, Qwen3.5
  kMamba2,       // Granite 4
};

// The state of one layer. A matrix is [key_dim, value_dim].
struct StateShape {
  StateRule rule = StateRule::kConvolution;
  int channels = 0;   // of the convolution
  int taps = 0;       // tokens that it sees, the newest included
  int heads = 0;      // matrices; 0 with kConvolution
  int key_heads = 0;  // heads that have keys and queries of their own; divides heads
  int key_dim = 0, value_dim = 0;
  bool tiled = false;  // see KeyHeadOf

  int values() const { return heads * value_dim; }
  // Whose key and query a head reads: consecutive heads share one, or those that are key_heads
  // apart.
  int KeyHeadOf(int head) const { return tiled ? head % key_heads : head / (heads / key_heads); }
  std::int64_t floats() const;
  std::int64_t bytes() const { return floats() * static_cast<std::int64_t>(sizeof(float)); }
};

struct StateCopy {
  std::int32_t from = 0, to = 0;  // slots
};

// y[t][c] = bias[c] + sum over the taps, oldest first, of taps[i][c] * u[t - taps + 1 + i][c],
// where u is `x` from `first_column` on, times x from `gate_in` on if that is not negative. Then
// silu(y), or y times x from `gate_out` on. The state keeps u of the last taps - 1 tokens; before a
// path's first token it is 0.
struct ConvolutionCall {
  const StateShape& shape;
  int layer = 0;  // of those that keep a state
  const Tensor& x;
  const Vector& taps;  // [taps, channels]
  const Vector* bias = nullptr;
  int first_column = 0, gate_in = -1, gate_out = -1;
  bool silu = false;
};

// One token and head, with the matrix S, its key k, query q and value v, and with
//   step = softplus(steps + step_bias), decay = exp(rate * step):
//   kDelta:  k and q have length 1, q / √key_dim; strength = logistic(strengths)
//            S *= decay;  S += k (strength * (v - Sᵀ k))ᵀ;  out = Sᵀ q
//   kMamba2: step is cut to [least_step, most_step]
//            S = decay * S + k (step * v)ᵀ;  out = Sᵀ q + skip * v
// `mixed` [rows, channels], what Convolve gave: queries, keys, values with kDelta; values, keys,
// queries with kMamba2. A head reads the key and query of StateShape::KeyHeadOf.
struct ScanCall {
  const StateShape& shape;
  int layer = 0;  // of those that keep a state
  const Tensor& mixed;
  const Tensor& inputs;                      // has the two below in columns
  int step_column = 0, strength_column = 0;  // the first of [heads]
  const Vector& rates;                       // [heads] negative
  const Vector& step_bias;                   // [heads]
  const Vector* skip = nullptr;              // [heads] kMamba2
  float least_step = 0.0f, most_step = std::numeric_limits<float>::infinity();
};

inline constexpr int kMostTaps = 16;

// Of keys and queries with kDelta: added to the sum of squares before its root.
inline constexpr float kKeyNormEps = 1e-6f;

}  // namespace banyan
