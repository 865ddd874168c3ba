// Greedy choices, log-softmax and lists of alternatives (selection.h); draws are in draw.cu.
#include <algorithm>

#include "kernels/cuda/choices/selection.h"
#include "kernels/cuda/choices/selection_values.cuh"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/device/warp.cuh"

namespace banyan::cuda {

namespace {

// --- Chunks -------------------------------------------------------------------------------------
// The
// best tokens and the sum of exponentials of every chunk: the part of a choice that reads all
// logits, as fast as memory gives them.
//
// Blocks stay, and each takes its share of neighbouring chunks one after another. While it works on
// one, copies of the next kAhead are under way; a thread reads back only what it asked for itself,
// so copies need no barrier. One barrier a chunk is left, to agree on its largest value: what the
// warps find out after it is put together after the next one.
//
// The order of a chunk's sum is fixed: values are summed in 256 columns of four neighbours each,
// columns by WarpSum in groups of 32, groups from first to last. A thread has two columns, 128
// apart. Neither the block that takes a chunk nor its other chunks matter.

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kValues = kChunkTokens / kThreads, kFours = kValues / 4;  // of a thread
constexpr int kColumns = 2;  // of a thread: its fours alternate
constexpr unsigned kAhead = 2;
// Registers and shared memory are for so many blocks of a multiprocessor. 192 KiB are then under
// way there: 40 to 70 would do (products/product_kernels.h), but blocks do not ask at even times.
constexpr int kBlocks = 6;

struct ChunkPlace {
  int request, chunk;

  __device__ void Advance(int chunks) {
    if (++chunk == chunks) ++request, chunk = 0;
  }
  // That of this thread's value i.
  __device__ int Token(int i) const {
    return chunk * kChunkTokens + 4 * (i / 4 * kThreads + static_cast<int>(threadIdx.x)) + i % 4;
  }
};

// What the warps say of a chunk.
struct ChunkFindings {
  std::uint32_t key[kWarps];  // of the largest value
  Best raw[kWarps], allowed[kWarps];
  double sum[kColumns][kWarps];
};

using Slot = float4[kFours][kThreads];

__device__ const float* RowOf(const SelectionCall& call, ChunkPlace place) {
  return call.logits.values + call.requests[place.request].row * call.logits.stride;
}

// Asks for a thread's values of a chunk, as far as four neighbours are in the vocabulary.
__device__ void Fetch(const SelectionCall& call, ChunkPlace place, Slot& slot) {
  const float* from = RowOf(call, place) + place.Token(0);
  const int left = call.logits.vocabulary - place.Token(0);
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    const int at = 4 * i * kThreads;
    CopyAsync(&slot[i][threadIdx.x], from + at, at + 3 < left);
  }
}

// What Fetch left out; minus infinity beyond the vocabulary.
__device__ void Complete(const SelectionCall& call, ChunkPlace place, float (&values)[kValues]) {
  const int vocabulary = call.logits.vocabulary;
  if ((place.chunk + 1) * kChunkTokens <= vocabulary) return;
  const float* row = RowOf(call, place);
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    const int token = place.Token(i);
    if (token / 4 * 4 + 3 >= vocabulary) values[i] = token < vocabulary ? row[token] : -INFINITY;
  }
}

__device__ float Largest(const float (&values)[kValues]) {
  float largest = -INFINITY;
#pragma unroll
  for (const float x : values) largest = fmaxf(largest, x);  // passes over NaN
  return largest;
}

// The first of the thread's values that is as large.
__device__ Best FirstOf(float largest, ChunkPlace place, const float (&values)[kValues]) {
  Best first = {-INFINITY, kNoCandidate};
#pragma unroll
  for (int i = kValues - 1; i >= 0; --i) {
    if (values[i] == largest) first = {values[i], place.Token(i)};  // 0 keeps its sign
  }
  return first;
}

// After penalty and mask.
__device__ Best BestAllowed(const RequestView& view, ChunkPlace place,
                            const float (&values)[kValues]) {
  Best best = {-INFINITY, kNoCandidate};
#pragma unroll
  for (int i = 0; i < kValues; i += 4) {
    const int token = place.Token(i);
    if (token >= view.vocabulary) break;
    const unsigned allowed = view.AllowedOfFour(token), penalised = view.PenalisedOfFour(token);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float x = values[i + j];
      if (penalised >> j & 1u) x = view.AfterPenalty(x);
      if ((allowed >> j & 1u) && x > best.value) best = {x, token + j};
    }
  }
  return best;
}

// Of exp(value - largest); nothing for NaN, without a branch: exponentials run side by side.
__device__ float SumOfColumn(int column, const float (&values)[kValues], float largest) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    if (i / 4 % kColumns == column) sum += expf(fmaxf(values[i], -INFINITY) - largest);
  }
  return isinf(largest) ? 0.0f : sum;
}

__device__ ChunkBest Together(const ChunkFindings& found) {
  Best raw = found.raw[0], allowed = found.allowed[0];
#pragma unroll
  for (int warp = 1; warp < kWarps; ++warp) {
    raw = Better(raw, found.raw[warp]);
    allowed = Better(allowed, found.allowed[warp]);
  }
  double sum = 0.0;
#pragma unroll
  for (int group = 0; group < kColumns * kWarps; ++group) {
    sum += found.sum[group / kWarps][group % kWarps];
  }
  return {raw.value, raw.token, allowed.value, allowed.token, sum};
}

__global__ void __launch_bounds__(kThreads, kBlocks) ChunkKernel(SelectionCall call) {
  __shared__ Slot slots[kAhead];
  __shared__ ChunkFindings findings[2];  // of this chunk and the one before
  LetNextKernelStart();
  const int chunks = call.logits.chunks();
  const auto all = static_cast<unsigned>(call.requests_count * chunks);
  const unsigned share = all / gridDim.x, longer = all % gridDim.x;  // one more for the first few
  const unsigned own_chunks = share + (blockIdx.x < longer ? 1 : 0);
  const auto first = static_cast<int>(blockIdx.x * share + min(blockIdx.x, longer));
  ChunkBest* const results = call.chunks + first;
  const unsigned me = threadIdx.x, warp = me / 32, lane = me % 32;
  ChunkPlace now = {first / chunks, first % chunks}, ahead = now;
  for (unsigned i = 0; i < kAhead; ++i) {
    if (i < own_chunks) Fetch(call, ahead, slots[i]);
    CommitCopies();
    ahead.Advance(chunks);
  }
  for (unsigned at = 0; at < own_chunks; ++at) {
    ChunkFindings& found = findings[at % 2];
    const SelectionRequest& request = call.requests[now.request];
    const bool plain = request.IsPlain();
    WaitForCopies<kAhead - 1>();
    Slot& slot = slots[at % kAhead];
    float values[kValues];
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      const float4 four = slot[i][me];
      values[4 * i] = four.x, values[4 * i + 1] = four.y;
      values[4 * i + 2] = four.z, values[4 * i + 3] = four.w;
    }
    if (at + kAhead < own_chunks) Fetch(call, ahead, slot);
    CommitCopies();
    ahead.Advance(chunks);
    Complete(call, now, values);

    const std::uint32_t warp_key = __reduce_min_sync(0xffffffffu, KeyOf(Largest(values)));
    if (lane == 0) found.key[warp] = warp_key;
    __syncthreads();
    if (me == 0 && at > 0) results[at - 1] = Together(findings[(at - 1) % 2]);
    const std::uint32_t key = __reduce_min_sync(0xffffffffu, found.key[lane % kWarps]);
    const float largest = ValueOf(key);

    Best raw = {-INFINITY, kNoCandidate};
    if (warp_key == key && largest != -INFINITY) raw = WarpBest(FirstOf(largest, now, values));
    const Best allowed = plain ? raw : WarpBest(BestAllowed({call, request}, now, values));
    double sums[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      sums[c] = WarpSum(static_cast<double>(SumOfColumn(c, values, largest)));
    }
    if (lane == 0) {
      found.raw[warp] = raw;
      found.allowed[warp] = allowed;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) found.sum[c][warp] = sums[c];
    }
    now.Advance(chunks);
  }
  __syncthreads();
  if (me == 0) results[own_chunks - 1] = Together(findings[(own_chunks - 1) % 2]);
}

}  // namespace

void FindBestOfChunks(cudaStream_t stream, const SelectionCall& call) {
  // A multiprocessor gives its blocks so much shared memory only where it is asked to.
  static OncePerDevice asked;
  asked([] {
    Check(cudaFuncSetAttribute(ChunkKernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared),
          "shared memory of chunks");
  });
  const int blocks =
      std::min(call.requests_count * call.logits.chunks(), kBlocks * Multiprocessors());
  ChunkKernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(call);
  CheckLaunch("best tokens of chunks");
}

namespace {

// --- Requests -----------------------------------------------------------------------------------

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
  Best raw = {-INFINITY, kNoCandidate}, allowed = {-INFINITY, kNoCandidate};
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
  result.token = request.forced != kNone         ? request.forced
                 : allowed.token == kNoCandidate ? kNone
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
    Best best = {-INFINITY, kNoCandidate};
    for (int c = me; c < chunks; c += kListThreads) best = Better(best, heads[c]);
    best = BlockBest(best, scratch[0]);
    ScoreResult& out = call.alternatives[request.first_alternative + place];
    if (best.token == kNoCandidate) {
      if (me == 0) out = {kNone, 0.0f};
      return;
    }
    if (me == 0) out = {best.token, LogprobOf(best.value, score)};
    const int chunk = best.token / kChunkTokens;
    const int end = min((chunk + 1) * kChunkTokens, call.logits.vocabulary);
    Best next = {-INFINITY, kNoCandidate};
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
