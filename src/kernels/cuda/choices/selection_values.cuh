// What a request sees of its row: logits after penalty and mask, their order, and log-softmax.
#pragma once

#include "kernels/cuda/choices/selection.h"

namespace banyan::cuda {

inline constexpr int kNoCandidate = 0x7fffffff;  // a token that loses every tie

struct Best {
  float value;
  int token;
};

// Larger values first, equal ones by id.
__device__ inline Best Better(Best a, Best b) {
  return a.value > b.value || (a.value == b.value && a.token < b.token) ? a : b;
}

__device__ inline Best WarpBest(Best best) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const Best other = {__shfl_xor_sync(0xffffffffu, best.value, offset),
                        __shfl_xor_sync(0xffffffffu, best.token, offset)};
    best = Better(best, other);
  }
  return best;
}

__device__ inline bool BitOf(const std::uint32_t* words, int token) {
  return ((words[token / 32] >> (token % 32)) & 1u) != 0;
}

// One request's view of its row.
struct RequestView {
  const float* row;
  const std::uint32_t* penalised;  // null: none
  const std::uint32_t* mask;       // null: all
  int mask_tokens;                 // what the mask's words cover
  int vocabulary;
  float penalty;

  __device__ RequestView(const SelectionCall& call, const SelectionRequest& request)
      : row(call.logits.values + request.row * call.logits.stride),
        penalised(request.penalised == kNone
                      ? nullptr
                      : call.penalised +
                            static_cast<std::int64_t>(request.penalised) * call.logits.words()),
        mask(request.mask == kNone ? nullptr : call.masks + request.mask),
        mask_tokens(request.mask_words * 32),
        vocabulary(call.logits.vocabulary),
        penalty(request.penalty) {}

  // The logit after penalty and mask; NaN becomes minus infinity.
  __device__ float Adjusted(int token) const {
    float x = row[token];
    if (penalised != nullptr && BitOf(penalised, token)) x = AfterPenalty(x);
    if (mask != nullptr && (token >= mask_tokens || !BitOf(mask, token))) return -INFINITY;
    return isnan(x) ? -INFINITY : x;
  }
  __device__ float AfterPenalty(float raw) const {
    return raw < 0.0f ? raw * penalty : raw / penalty;
  }

  // Bit j speaks of token + j; `token` is a multiple of four. Is it penalised, is it allowed?
  __device__ unsigned PenalisedOfFour(int token) const {
    return penalised == nullptr ? 0u : penalised[token / 32] >> (token % 32) & 15u;
  }
  __device__ unsigned AllowedOfFour(int token) const {
    if (mask == nullptr) return 15u;
    return token < mask_tokens ? mask[token / 32] >> (token % 32) & 15u : 0u;
  }
};

// Log-softmax of one of the row's raw logits.
__device__ inline float LogprobOf(float logit, const RowScore& score) {
  if (isnan(logit)) return -INFINITY;
  if (isinf(score.largest)) return logit == score.largest ? 0.0f : -INFINITY;
  return static_cast<float>((static_cast<double>(logit) - score.largest) - score.log_rest);
}

// Order of values as integers: a larger value has a smaller key, and equal values (both zeros) have
// equal keys. REQUIRES: not NaN.
__device__ inline std::uint32_t KeyOf(float x) {
  const std::uint32_t bits = __float_as_uint(x == 0.0f ? 0.0f : x);
  return (bits & 0x80000000u) != 0 ? bits : ~bits & 0x7fffffffu;
}
__device__ inline float ValueOf(std::uint32_t key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key : ~key & 0x7fffffffu);
}

}  // namespace banyan::cuda
