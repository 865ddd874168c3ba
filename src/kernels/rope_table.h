// How positions turn queries and keys, as numbers that every backend takes.
#pragma once

#include <cmath>
#include <vector>

namespace banyan {

// A layer whose queries and keys are not turned (AttentionShape::rope).
inline constexpr int kNoRope = -1;

struct RopeTable {
  // Pair i of a head at position p turns by the angle p * inverse_frequency[i].  [rotary_dim / 2]
  std::vector<float> inverse_frequency;
  float scale = 1.0f;  // of cosine and sine; YaRN and LongRoPE call it attention factor
  // Turned queries at position p are multiplied by 1 + query_beta * ln(1 + floor(p /
  // query_interval)): an attention temperature that falls with the position.
  float query_beta = 0.0f;
  int query_interval = 0;  // tokens; 0: queries are not multiplied
};

// In float32, the order in which Transformers evaluates it.
inline float QueryFactor(const RopeTable& rope, int position) {
  if (rope.query_interval <= 0) return 1.0f;
  const float step =
      std::floor(static_cast<float>(position) / static_cast<float>(rope.query_interval));
  const auto logarithm = static_cast<float>(std::log(static_cast<double>(1.0f + step)));
  return 1.0f + rope.query_beta * logarithm;
}

}  // namespace banyan
