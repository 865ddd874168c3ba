// Draws: the token at a given share of the weight of a row's tokens, most likely first, of those
// that top-k, top-p and min-p leave. No row is sorted:
//
//   1. Tokens fall into bins by their distance to the best one. The bins' counts and weights are
//      summed over the row. Weights are integers (fixed point), so the sums have no order and a
//      draw is a function of its row and request alone.
//   2. A search by count (top-k) or by weight (top-p, the draw itself) finds its bin from these
//      sums; the tokens of that bin are gathered, sorted, and walked through.
//
// All three limits keep a run of the most likely tokens, so what matters of them is the weight of
// that run, `kept`. The order is that of sampling.h, with weights rounded to 2^-44 of the best
// one's at 2^18 tokens: another token only where a running sum meets its target within 1e-6.
//
// Here are the kernels; weights and bins are those of draw_weights.cuh, searches of
// draw_search.cuh.
#include "kernels/cuda/choices/draw_search.cuh"
#include "kernels/cuda/choices/draw_weights.cuh"
#include "kernels/cuda/choices/selection.h"
#include "kernels/cuda/choices/selection_values.cuh"
#include "kernels/cuda/device/device.h"

namespace banyan::cuda {
namespace {

constexpr int kTokensPerBlock = 8192;

__device__ int TokenBlocks(const SelectionCall& call) {
  return (call.logits.vocabulary + kTokensPerBlock - 1) / kTokensPerBlock;
}

// Sums of the bins.
__global__ void __launch_bounds__(kDrawThreads) BinKernel(SelectionCall call) {
  __shared__ Weight weights[kBins];
  __shared__ unsigned counts[kBins];
  const int blocks = TokenBlocks(call);
  const int draw = static_cast<int>(blockIdx.x) / blocks;
  const int begin = static_cast<int>(blockIdx.x) % blocks * kTokensPerBlock;
  const int index = call.draws[draw];
  const SelectionRequest request = call.requests[index];
  const float best = call.scores[index].best;
  if (best == -INFINITY) return;
  const RequestView view(call, request);
  const Weighing weighing(call, request, best);
  const int me = static_cast<int>(threadIdx.x);
  for (int i = me; i < kBins; i += kDrawThreads) weights[i] = 0, counts[i] = 0;
  __syncthreads();
  const int end = min(begin + kTokensPerBlock, view.vocabulary);
  const double least = fmin(static_cast<double>(request.min_p), 1.0);
  Weight likely = 0;
  for (int token = begin + me; token < end; token += kDrawThreads) {
    const float x = view.Adjusted(token);
    if (x == -INFINITY) continue;
    const int bin = weighing.BinOf(x);
    atomicAdd(&counts[bin], 1u);
    if (bin == kRestBin) continue;
    const double share = weighing.ShareOf(x);
    const auto weight = static_cast<Weight>(share * weighing.one);
    if (weight > 0) atomicAdd(&weights[bin], weight);
    if (share >= least) likely += weight;
  }
  __syncthreads();
  DrawBins& sums = call.bins[draw];
  for (int i = me; i < kBins; i += kDrawThreads) {
    if (counts[i] > 0) atomicAdd(&sums.counts[i], counts[i]);
    if (weights[i] > 0) atomicAdd(&sums.weights[i], weights[i]);
  }
  if (request.min_p > 0.0f) {
    likely = WarpSum(likely);
    if (me % 32 == 0 && likely > 0) atomicAdd(&call.states[draw].likely, likely);
  }
}

// One block a draw: ends the search of `ended`, begins that of `begun`; kFirst and kLast say that
// there is none of the former, of the latter.
template <bool kFirst, bool kLast>
__global__ void __launch_bounds__(kDrawThreads)
    SearchKernel(SelectionCall call, DrawStage ended, DrawStage begun) {
  __shared__ DrawMemory memory;
  const int draw = static_cast<int>(blockIdx.x);
  const int index = call.draws[draw];
  const SelectionRequest request = call.requests[index];
  const RowScore score = call.scores[index];
  if (score.best == -INFINITY) return;
  const DrawBins& bins = call.bins[draw];
  DrawState state = call.states[draw];
  if (kFirst) {
    Weight mine = 0;
    for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kDrawThreads)
      mine += bins.weights[i];
    state.kept = BlockSum(mine, memory);
  } else if (state.bin != kNone) {
    const RequestView view(call, request);
    const Weighing weighing(call, request, score.best);
    const DrawSearch search{call, request, view, weighing, state, ended};
    const unsigned count = bins.counts[state.bin];
    const DrawFound found =
        count <= kGathered
            ? FindAmongFew(search, call.gathered + static_cast<std::int64_t>(draw) * kGathered,
                           static_cast<int>(count), memory)
            : FindAmongMany(search, memory);
    if (kLast) {
      if (threadIdx.x == 0) {
        call.results[index] = {found.token, LogprobOf(view.row[found.token], score)};
      }
      return;
    }
    state.kept = found.weight;
    __syncthreads();
  }
  if (kLast) return;
  BeginSearch(request, begun, bins, state, memory);
  if (threadIdx.x == 0) call.states[draw] = state;
}

// The tokens of the bin in which the search ends, in any order, unless they are too many to sort.
__global__ void __launch_bounds__(kDrawThreads) GatherKernel(SelectionCall call) {
  const int blocks = TokenBlocks(call);
  const int draw = static_cast<int>(blockIdx.x) / blocks;
  const int begin = static_cast<int>(blockIdx.x) % blocks * kTokensPerBlock;
  const int index = call.draws[draw];
  const float best = call.scores[index].best;
  if (best == -INFINITY) return;
  DrawState& state = call.states[draw];
  const int bin = state.bin;
  if (bin == kNone || call.bins[draw].counts[bin] > kGathered) return;
  const SelectionRequest request = call.requests[index];
  const RequestView view(call, request);
  const Weighing weighing(call, request, best);
  std::uint64_t* gathered = call.gathered + static_cast<std::int64_t>(draw) * kGathered;
  const int end = min(begin + kTokensPerBlock, view.vocabulary);
  for (int token = begin + static_cast<int>(threadIdx.x); token < end; token += kDrawThreads) {
    const float x = view.Adjusted(token);
    if (x == -INFINITY || weighing.BinOf(x) != bin) continue;
    const int place = atomicAdd(&state.gathered, 1);
    gathered[place] =
        static_cast<std::uint64_t>(KeyOf(x)) << 32 | static_cast<std::uint32_t>(token);
  }
}

}  // namespace

DrawBytes BytesOfADraw() {
  return {sizeof(DrawState), sizeof(DrawBins), kGathered * std::int64_t{sizeof(std::uint64_t)}};
}

void DrawTokens(cudaStream_t stream, const SelectionCall& call) {
  const auto draws = static_cast<unsigned>(call.draws_count);
  const unsigned blocks =
      draws *
      static_cast<unsigned>((call.logits.vocabulary + kTokensPerBlock - 1) / kTokensPerBlock);
  BinKernel<<<blocks, kDrawThreads, 0, stream>>>(call);
  CheckLaunch("bins of draws");
  DrawStage stages[3];
  int count = 0;
  if (call.any_top_k) stages[count++] = DrawStage::kTopK;
  if (call.any_top_p) stages[count++] = DrawStage::kTopP;
  stages[count++] = DrawStage::kDraw;
  SearchKernel<true, false><<<draws, kDrawThreads, 0, stream>>>(call, stages[0], stages[0]);
  for (int i = 0; i < count; ++i) {
    GatherKernel<<<blocks, kDrawThreads, 0, stream>>>(call);
    if (i + 1 < count) {
      SearchKernel<false, false>
          <<<draws, kDrawThreads, 0, stream>>>(call, stages[i], stages[i + 1]);
    } else {
      SearchKernel<false, true><<<draws, kDrawThreads, 0, stream>>>(call, stages[i], stages[i]);
    }
    CheckLaunch("draws");
  }
}

}  // namespace banyan::cuda
