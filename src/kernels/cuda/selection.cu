#include "kernels/cuda/device.h"
#include "kernels/cuda/selection.h"

namespace banyan::cuda {
namespace {

constexpr int kThreads = 512;

constexpr int kNobody = 0x7fffffff;

struct Best {
  float value;
  int token;
};

__device__ Best Better(Best a, Best b) {
  if (a.value != b.value) return a.value > b.value ? a : b;
  return a.token < b.token ? a : b;
}

// One block a request. NaN counts as minus infinity; the sum of the exponentials is taken in double
// in an order that the block's shape fixes.
__global__ void ScoreKernel(const float* logits, std::int64_t stride, int vocabulary,
                            const ScoreRequest* requests, ScoreResult* results) {
  __shared__ Best best_of_thread[kThreads];
  __shared__ double sum_of_thread[kThreads];
  const ScoreRequest request = requests[blockIdx.x];
  const float* row = logits + request.row * stride;
  const int me = threadIdx.x;
  Best best = {-INFINITY, kNobody};
  for (int t = me; t < vocabulary; t += kThreads) {
    const float x = row[t];
    if (x > best.value) best = {x, t};
  }
  best_of_thread[me] = best;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (me < half) best_of_thread[me] = Better(best_of_thread[me], best_of_thread[me + half]);
    __syncthreads();
  }
  best = best_of_thread[0];
  double sum = 0.0;
  if (!isinf(best.value)) {
    for (int t = me; t < vocabulary; t += kThreads) {
      const float x = row[t];
      if (!isnan(x)) sum += static_cast<double>(expf(x - best.value));
    }
  }
  sum_of_thread[me] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (me < half) sum_of_thread[me] += sum_of_thread[me + half];
    __syncthreads();
  }
  if (me != 0) return;
  ScoreResult result;
  result.token = request.token == kGreedy ? best.token : request.token;
  if (request.token == kGreedy && best.token == kNobody) {
    result.token = -1;
    results[blockIdx.x] = result;
    return;
  }
  const float logit = row[result.token];
  if (isnan(logit)) {
    result.logprob = -INFINITY;
  } else if (isinf(best.value)) {
    result.logprob = logit == best.value ? 0.0f : -INFINITY;
  } else {
    result.logprob =
        static_cast<float>((static_cast<double>(logit) - best.value) - log(sum_of_thread[0]));
  }
  results[blockIdx.x] = result;
}

__global__ void FeedKernel(const ScoreResult* results, int rows, std::int32_t* tokens) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows || tokens[row] >= 0) return;
  // A row without a token to choose is an error that the host will see; any token serves till then.
  tokens[row] = max(results[-1 - tokens[row]].token, 0);
}

}  // namespace

void ScoreLogits(cudaStream_t stream, const float* logits, std::int64_t stride, int vocabulary,
                 const ScoreRequest* requests, int count, ScoreResult* results) {
  if (count == 0) return;
  ScoreKernel<<<static_cast<unsigned>(count), kThreads, 0, stream>>>(logits, stride, vocabulary,
                                                                     requests, results);
  CheckLaunch("choice of tokens");
}

void FeedChosen(cudaStream_t stream, const ScoreResult* results, int rows, std::int32_t* tokens) {
  if (rows == 0) return;
  constexpr int kFeedThreads = 128;
  const auto blocks = static_cast<unsigned>((rows + kFeedThreads - 1) / kFeedThreads);
  FeedKernel<<<blocks, kFeedThreads, 0, stream>>>(results, rows, tokens);
  CheckLaunch("feeding of chosen tokens");
}

}  // namespace banyan::cuda
