// The best tokens and the sum of exponentials of every chunk: the part of a choice that reads all
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
#include <algorithm>

#include "kernels/cuda/choices/selection.h"
#include "kernels/cuda/choices/selection_values.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/device/reduce.cuh"

namespace banyan::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kValues = kChunkTokens / kThreads, kFours = kValues / 4;  // of a thread
constexpr int kColumns = 2;  // of a thread: its fours in turn
constexpr unsigned kAhead = 2;
// Registers and shared memory are for so many blocks of a multiprocessor. 192 KiB are then under
// way there: 40 to 70 would do (products/few_rows.h), but blocks do not ask at even times.
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
  Best first = {-INFINITY, kNobody};
#pragma unroll
  for (int i = kValues - 1; i >= 0; --i) {
    if (values[i] == largest) first = {values[i], place.Token(i)};  // 0 keeps its sign
  }
  return first;
}

// After penalty and mask.
__device__ Best BestAllowed(const RequestView& view, ChunkPlace place,
                            const float (&values)[kValues]) {
  Best best = {-INFINITY, kNobody};
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
  __shared__ ChunkFindings findings[2];  // of this turn and the one before
  LetNextKernelStart();
  const int chunks = call.logits.chunks();
  const auto all = static_cast<unsigned>(call.requests_count * chunks);
  const unsigned share = all / gridDim.x, longer = all % gridDim.x;  // one more for the first few
  const unsigned turns = share + (blockIdx.x < longer ? 1 : 0);
  const auto first = static_cast<int>(blockIdx.x * share + min(blockIdx.x, longer));
  ChunkBest* const results = call.chunks + first;
  const unsigned me = threadIdx.x, warp = me / 32, lane = me % 32;
  ChunkPlace now = {first / chunks, first % chunks}, ahead = now;
  for (unsigned i = 0; i < kAhead; ++i) {
    if (i < turns) Fetch(call, ahead, slots[i]);
    CommitCopies();
    ahead.Advance(chunks);
  }
  for (unsigned turn = 0; turn < turns; ++turn) {
    ChunkFindings& found = findings[turn % 2];
    const SelectionRequest& request = call.requests[now.request];
    const bool plain = request.IsPlain();
    WaitForCopies<kAhead - 1>();
    Slot& slot = slots[turn % kAhead];
    float values[kValues];
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      const float4 four = slot[i][me];
      values[4 * i] = four.x, values[4 * i + 1] = four.y;
      values[4 * i + 2] = four.z, values[4 * i + 3] = four.w;
    }
    if (turn + kAhead < turns) Fetch(call, ahead, slot);
    CommitCopies();
    ahead.Advance(chunks);
    Complete(call, now, values);

    const std::uint32_t warp_key = __reduce_min_sync(0xffffffffu, KeyOf(Largest(values)));
    if (lane == 0) found.key[warp] = warp_key;
    __syncthreads();
    if (me == 0 && turn > 0) results[turn - 1] = Together(findings[(turn - 1) % 2]);
    const std::uint32_t key = __reduce_min_sync(0xffffffffu, found.key[lane % kWarps]);
    const float largest = ValueOf(key);

    Best raw = {-INFINITY, kNobody};
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
  if (me == 0) results[turns - 1] = Together(findings[(turns - 1) % 2]);
}

}  // namespace

void FindBestOfChunks(cudaStream_t stream, const SelectionCall& call) {
  // A multiprocessor gives its blocks so much shared memory only where it is asked to.
  [[maybe_unused]] static const bool asked = [] {
    Check(cudaFuncSetAttribute(ChunkKernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared),
          "shared memory of chunks");
    return true;
  }();
  const int blocks =
      std::min(call.requests_count * call.logits.chunks(), kBlocks * Multiprocessors());
  ChunkKernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(call);
  CheckLaunch("best tokens of chunks");
}

}  // namespace banyan::cuda
