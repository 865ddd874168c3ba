#include "kernels/cuda/choices/selection.h"
#include "kernels/cuda/choices/selection_values.cuh"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/reduce.cuh"

namespace banyan::cuda {
namespace {

constexpr int kListThreads = 256, kListWarps = kListThreads / 32;

// The best of the block, known to every thread. `scratch` has one place a warp; the block must be
// past any earlier use of it.
__device__ Best BlockBest(Best best, Best* scratch) {
  best = WarpBest(best);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = best;
  __syncthreads();
  best = scratch[0];
#pragma unroll
  for (int warp = 1; warp < kListWarps; ++warp) best = Better(best, scratch[warp]);
  return best;
}

// Bit t of a request's row: token t is in its history.
__global__ void MarkHistoryKernel(SelectionCall call) {
  const SelectionRequest& request = call.requests[call.penalties[blockIdx.x]];
  std::uint32_t* words =
      call.penalised + static_cast<std::int64_t>(request.penalised) * call.logits.words();
  for (int i = static_cast<int>(threadIdx.x); i < request.history_tokens;
       i += static_cast<int>(blockDim.x)) {
    const std::int32_t token = call.histories[request.history + i];
    atomicOr(&words[token / 32], 1u << (token % 32));
  }
}

// One warp a request: its score, and its token unless it is to be drawn.
__global__ void FinishKernel(SelectionCall call) {
  WaitForEarlierKernels();
  const int index = static_cast<int>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (index >= call.requests_count) return;
  const int chunks = call.logits.chunks();
  const ChunkBest* mine = call.chunks + static_cast<std::int64_t>(index) * chunks;
  Best raw = {-INFINITY, kNobody}, allowed = {-INFINITY, kNobody};
  for (int c = lane; c < chunks; c += 32) {
    raw = Better(raw, {mine[c].value, mine[c].token});
    allowed = Better(allowed, {mine[c].allowed_value, mine[c].allowed_token});
  }
  raw = WarpBest(raw);
  allowed = WarpBest(allowed);
  RowScore score;
  score.largest = raw.value;
  score.best = allowed.value;
  if (!isinf(raw.value)) {
    double sum = 0.0;
    for (int c = lane; c < chunks; c += 32) {
      // A chunk of nothing has a sum of zero.
      sum += mine[c].sum * exp(static_cast<double>(mine[c].value) - raw.value);
    }
    score.log_rest = log(WarpSum(sum));
  }
  if (lane != 0) return;
  call.scores[index] = score;
  const SelectionRequest& request = call.requests[index];
  ScoreResult result;
  result.token = request.forced != kNone    ? request.forced
                 : allowed.token == kNobody ? kNone
                                            : allowed.token;
  if (result.token != kNone) {
    // Most often the best one: its logit is here already.
    const float* row = call.logits.values + request.row * call.logits.stride;
    result.logprob = LogprobOf(result.token == raw.token ? raw.value : row[result.token], score);
  }
  call.results[index] = result;
}

// One block a request: takes the best of the chunks' best tokens again and again, and looks for the
// next one in the chunk that it came from.
__global__ void __launch_bounds__(kListThreads) ListKernel(SelectionCall call) {
  extern __shared__ Best heads[];  // [chunks]
  __shared__ Best scratch[2][kListWarps];
  const int index = call.lists[blockIdx.x];
  const SelectionRequest request = call.requests[index];
  const RowScore score = call.scores[index];
  const float* row = call.logits.values + request.row * call.logits.stride;
  const int chunks = call.logits.chunks(), me = static_cast<int>(threadIdx.x);
  const ChunkBest* mine = call.chunks + static_cast<std::int64_t>(index) * chunks;
  for (int c = me; c < chunks; c += kListThreads) heads[c] = {mine[c].value, mine[c].token};
  __syncthreads();
  for (int place = 0; place < request.alternatives; ++place) {
    Best best = {-INFINITY, kNobody};
    for (int c = me; c < chunks; c += kListThreads) best = Better(best, heads[c]);
    best = BlockBest(best, scratch[0]);
    ScoreResult& out = call.alternatives[request.first_alternative + place];
    if (best.token == kNobody) {
      if (me == 0) out = {kNone, 0.0f};
      return;
    }
    if (me == 0) out = {best.token, LogprobOf(best.value, score)};
    const int chunk = best.token / kChunkTokens;
    const int end = min((chunk + 1) * kChunkTokens, call.logits.vocabulary);
    Best next = {-INFINITY, kNobody};
    for (int token = chunk * kChunkTokens + me; token < end; token += kListThreads) {
      const float x = row[token];
      const bool later = x < best.value || (x == best.value && token > best.token);
      if (later && x > next.value) next = {x, token};
    }
    next = BlockBest(next, scratch[1]);
    if (me == 0) heads[chunk] = next;
    __syncthreads();
  }
}

__global__ void FeedKernel(const ScoreResult* results, int rows, std::int32_t* tokens) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows || tokens[row] >= 0) return;
  // A row without a token to choose is an error that the host will see; any token serves till then.
  tokens[row] = max(results[-1 - tokens[row]].token, 0);
}

}  // namespace

void SelectOnDevice(cudaStream_t stream, const SelectionCall& call) {
  if (call.requests_count == 0) return;
  const auto count = static_cast<unsigned>(call.requests_count);
  const auto chunks = static_cast<unsigned>(call.logits.chunks());
  if (call.penalties_count > 0) {
    MarkHistoryKernel<<<static_cast<unsigned>(call.penalties_count), 128, 0, stream>>>(call);
    CheckLaunch("marking of histories");
  }
  FindBestOfChunks(stream, call);
  constexpr unsigned kFinishWarps = 4;
  const LaunchShape finish{dim3((count + kFinishWarps - 1) / kFinishWarps), kFinishWarps * 32};
  LaunchEarly(stream, finish, "choice of tokens", FinishKernel, call);
  if (call.lists_count > 0) {
    ListKernel<<<static_cast<unsigned>(call.lists_count), kListThreads, chunks * sizeof(Best),
                 stream>>>(call);
    CheckLaunch("alternatives");
  }
  if (call.draws_count > 0) DrawTokens(stream, call);
}

void FeedChosen(cudaStream_t stream, const ScoreResult* results, int rows, std::int32_t* tokens) {
  if (rows == 0) return;
  constexpr int kFeedThreads = 128;
  const auto blocks = static_cast<unsigned>((rows + kFeedThreads - 1) / kFeedThreads);
  FeedKernel<<<blocks, kFeedThreads, 0, stream>>>(results, rows, tokens);
  CheckLaunch("feeding of chosen tokens");
}

}  // namespace banyan::cuda
