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
#include "kernels/cuda/choices/selection.h"
#include "kernels/cuda/choices/selection_values.cuh"
#include "kernels/cuda/device/device.h"

namespace banyan::cuda {

// --- A token's weight, an integer, and its bin: functions of its value and the request alone
// --------
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

// --- Searches -----------------------------------------------------------------------------------
// By count
// or by weight for the token at which a limit or the draw itself falls, most likely first.
// BeginSearch finds its bin from the sums of the bins; FindAmongFew and FindAmongMany find the
// token within. All are for one block of kDrawThreads.

inline constexpr int kDrawThreads = 512, kSlotsPerThread = kBins / kDrawThreads;

enum class DrawStage { kTopK, kTopP, kDraw };

// Where a search stands.
struct DrawState {
  Weight kept;           // weight of the tokens that are left
  Weight likely;         // of those that min-p allows
  Weight need;           // count or weight within the bin, up to and with the token looked for
  Weight weight_before;  // of the bins before
  int bin;               // kNone: this search has nothing to find
  int gathered;
};

// What the threads of a search share.
struct DrawMemory {
  Weight amounts[kBins];  // weights of bins or digits; or gathered tokens
  unsigned counts[kBins];
  Weight warps[kDrawThreads / 32];
  Weight before;  // of the slot found
  int slot;
};

// Sum over the block, known to every thread.
__device__ inline Weight BlockSum(Weight x, DrawMemory& memory) {
  x = WarpSum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) memory.warps[threadIdx.x / 32] = x;
  __syncthreads();
  Weight sum = 0;
  for (int warp = 0; warp < kDrawThreads / 32; ++warp) sum += memory.warps[warp];
  return sum;
}

// The first of kBins slots at which the running sum of amount(slot) reaches `need`, in memory.slot,
// and the sum before it, in memory.before. REQUIRES: 1 <= need <= the sum of all.
template <typename Amount>
__device__ inline void FindSlot(const Amount& amount, Weight need, DrawMemory& memory) {
  const int me = static_cast<int>(threadIdx.x), lane = me % 32, warp = me / 32;
  Weight mine = 0;
  for (int i = 0; i < kSlotsPerThread; ++i) mine += amount(me * kSlotsPerThread + i);
  Weight running = mine;  // over the warp, up to this lane
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const Weight other = __shfl_up_sync(0xffffffffu, running, offset);
    if (lane >= offset) running += other;
  }
  __syncthreads();
  if (lane == 31) memory.warps[warp] = running;
  if (me == 0) memory.slot = kBins - 1, memory.before = 0;
  __syncthreads();
  Weight before = running - mine;
  for (int w = 0; w < warp; ++w) before += memory.warps[w];
  if (before < need && need <= before + mine) {  // one thread
    for (int i = 0; i < kSlotsPerThread; ++i) {
      const int slot = me * kSlotsPerThread + i;
      const Weight here = amount(slot);
      if (need <= before + here) {
        memory.slot = slot;
        memory.before = before;
        break;
      }
      before += here;
    }
  }
  __syncthreads();
}

// Sorts the first `count` gathered tokens, each key << 32 | id: best first. Pads with the largest.
__device__ inline void SortGathered(int count, Weight* tokens) {
  int size = 1;
  while (size < count) size *= 2;
  const int me = static_cast<int>(threadIdx.x);
  for (int i = count + me; i < size; i += kDrawThreads) tokens[i] = ~Weight{0};
  __syncthreads();
  for (int run = 2; run <= size; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      for (int i = me; i < size; i += kDrawThreads) {
        const int partner = i ^ step;
        if (partner < i) continue;
        const bool ascending = (i & run) == 0;
        if ((tokens[i] > tokens[partner]) == ascending) {
          const Weight held = tokens[i];
          tokens[i] = tokens[partner];
          tokens[partner] = held;
        }
      }
      __syncthreads();
    }
  }
}

struct DrawSearch {
  const SelectionCall& call;
  const SelectionRequest& request;
  const RequestView& view;
  const Weighing& weighing;
  DrawState state;
  DrawStage stage;
};

// Where the search ends: the weight up to and with its token, and (for a draw) the token.
struct DrawFound {
  Weight weight;
  int token;
};

// Few tokens in the bin: they were gathered.
__device__ inline DrawFound FindAmongFew(const DrawSearch& search, const std::uint64_t* gathered,
                                         int count, DrawMemory& memory) {
  const int me = static_cast<int>(threadIdx.x);
  for (int i = me; i < count; i += kDrawThreads) memory.amounts[i] = gathered[i];
  SortGathered(count, memory.amounts);
  const auto weight_at = [&](int slot) {
    if (slot >= count) return Weight{0};
    return search.weighing.WeightOf(
        ValueOf(static_cast<std::uint32_t>(memory.amounts[slot] >> 32)));
  };
  if (search.stage == DrawStage::kTopK) {
    const int last = static_cast<int>(search.state.need) - 1;
    Weight mine = 0;
    for (int slot = me; slot <= last; slot += kDrawThreads) mine += weight_at(slot);
    return {search.state.weight_before + BlockSum(mine, memory), kNone};
  }
  FindSlot(weight_at, search.state.need, memory);
  const int slot = memory.slot;
  return {search.state.weight_before + memory.before + weight_at(slot),
          static_cast<int>(memory.amounts[slot] & 0xffffffffu)};
}

// Too many to sort: the key is found digit by digit, then the token among those of equal value.
__device__ inline DrawFound FindAmongMany(const DrawSearch& search, DrawMemory& memory) {
  const int me = static_cast<int>(threadIdx.x);
  const RequestView& view = search.view;
  Weight need = search.state.need, weight = search.state.weight_before;
  std::uint32_t key = 0, known = 0;
  const auto in_bin = [&](float x) {
    return x > -INFINITY && search.weighing.BinOf(x) == search.state.bin;
  };
  for (const int shift : {21, 10, 0}) {
    const std::uint32_t digits = shift == 0 ? 1023u : 2047u;
    for (int i = me; i < kBins; i += kDrawThreads) memory.amounts[i] = 0, memory.counts[i] = 0;
    __syncthreads();
    for (int token = me; token < view.vocabulary; token += kDrawThreads) {
      const float x = view.Adjusted(token);
      if (!in_bin(x) || (KeyOf(x) & known) != key) continue;
      const auto digit = (KeyOf(x) >> shift) & digits;
      atomicAdd(&memory.counts[digit], 1u);
      const Weight w = search.weighing.WeightOf(x);
      if (w > 0) atomicAdd(&memory.amounts[digit], w);
    }
    __syncthreads();
    if (search.stage == DrawStage::kTopK) {
      FindSlot([&](int slot) { return Weight{memory.counts[slot]}; }, need, memory);
    } else {
      FindSlot([&](int slot) { return memory.amounts[slot]; }, need, memory);
    }
    need -= memory.before;
    const int slot = memory.slot;
    Weight mine = 0;
    for (int i = me; i < slot; i += kDrawThreads) mine += memory.amounts[i];
    weight += BlockSum(mine, memory);
    key |= static_cast<std::uint32_t>(slot) << shift;
    known |= digits << shift;
    __syncthreads();
  }
  // All that are left are equal: which of them, by id.
  const Weight each = search.weighing.WeightOf(ValueOf(key));
  Weight place = search.stage == DrawStage::kTopK ? need - 1 : (need - 1) / each;
  weight += (place + 1) * each;
  if (search.stage != DrawStage::kDraw) return {weight, kNone};
  for (int first = 0; first < view.vocabulary; first += kDrawThreads) {
    const int token = first + me;
    const float x = token < view.vocabulary ? view.Adjusted(token) : -INFINITY;
    const bool equal = x > -INFINITY && KeyOf(x) == key;
    const auto here = static_cast<Weight>(__syncthreads_count(equal ? 1 : 0));
    if (place < here) {
      const unsigned lanes = __ballot_sync(0xffffffffu, equal);
      if (me % 32 == 0) memory.warps[me / 32] = static_cast<Weight>(__popc(lanes));
      __syncthreads();
      auto rank = static_cast<Weight>(__popc(lanes & ((1u << (me % 32)) - 1)));
      for (int warp = 0; warp < me / 32; ++warp) rank += memory.warps[warp];
      if (equal && rank == place) memory.slot = token;
      __syncthreads();
      return {weight, memory.slot};
    }
    place -= here;
  }
  return {weight, kNone};
}

// Prepares a search: the bin that it ends in, and how far within.
__device__ inline void BeginSearch(const SelectionRequest& request, DrawStage stage,
                                   const DrawBins& bins, DrawState& state, DrawMemory& memory) {
  state.bin = kNone;
  state.gathered = 0;
  Weight need = 0;
  if (stage == DrawStage::kTopK) {
    if (request.top_k <= 0) return;
    Weight mine = 0;
    for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kDrawThreads) {
      mine += bins.counts[i];
    }
    need = static_cast<Weight>(request.top_k);
    if (need >= BlockSum(mine, memory)) return;
    FindSlot([&](int slot) { return Weight{bins.counts[slot]}; }, need, memory);
  } else {
    const auto kept = static_cast<double>(state.kept);
    if (stage == DrawStage::kTopP) {
      if (request.top_p >= 1.0f) return;
      const double wanted = ceil(static_cast<double>(request.top_p) * kept);
      need = wanted < 1.0 ? 1 : min(static_cast<Weight>(wanted), state.kept);
    } else {
      if (request.min_p > 0.0f) state.kept = min(state.kept, state.likely);
      const double target = request.uniform * static_cast<double>(state.kept);
      need = min(static_cast<Weight>(target) + 1, state.kept);
    }
    FindSlot([&](int slot) { return bins.weights[slot]; }, need, memory);
  }
  const int bin = memory.slot;
  if (bin == kRestBin) return;  // top-k reaches among what weighs nothing: all that weighs is kept
  state.need = need - memory.before;
  Weight mine = 0;
  for (int i = static_cast<int>(threadIdx.x); i < bin; i += kDrawThreads) mine += bins.weights[i];
  state.weight_before = BlockSum(mine, memory);
  state.bin = bin;
}

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
