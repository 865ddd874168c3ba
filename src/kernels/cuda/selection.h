// From logits to tokens on the device: the greedy choice of a row, or a given token, with its
// log-softmax. Sampling with temperature and masks is done on the host (kernels/sampling.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace banyan::cuda {

inline constexpr std::int32_t kGreedy = -1;

struct ScoreRequest {
  std::int32_t row = 0;
  std::int32_t token = kGreedy;  // kGreedy: the largest logit, ties to the lowest id
};
struct ScoreResult {
  std::int32_t token = 0;  // -1: no logit is above minus infinity (greedy only)
  float logprob = 0.0f;
};

// logits: rows of `stride` floats of which `vocabulary` count.
void ScoreLogits(cudaStream_t stream, const float* logits, std::int64_t stride, int vocabulary,
                 const ScoreRequest* requests, int count, ScoreResult* results);

// Puts chosen tokens where `tokens` [rows] names choices (plan/batch.h).
void FeedChosen(cudaStream_t stream, const ScoreResult* results, int rows, std::int32_t* tokens);

}  // namespace banyan::cuda
