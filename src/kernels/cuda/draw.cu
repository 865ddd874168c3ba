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
#include "kernels/cuda/device.h"
#include "kernels/cuda/selection.h"
#include "kernels/cuda/selection_values.cuh"

namespace banyan::cuda {

inline constexpr int kBins = 2048;
inline constexpr int kGathered = kBins;  // tokens of a bin that are sorted in shared memory

using Weight = unsigned long long;

// Where a search stands.
struct DrawState {
  Weight kept;           // weight of the tokens that are left
  Weight likely;         // of those that min-p allows
  Weight need;           // count or weight within the bin, up to and with the token looked for
  Weight weight_before;  // of the bins before
  int bin;               // kNone: this search has nothing to find
  int gathered;
};

struct DrawBins {
  Weight weights[kBins];
  unsigned counts[kBins];
};

namespace {

constexpr int kThreads = 512, kSlotsPerThread = kBins / kThreads;
constexpr int kTokensPerBlock = 8192;
constexpr int kRest = kBins - 1;  // the bin of all that weighs nothing

enum class Stage { kTopK, kTopP, kDraw };

// Weights and bins of one request: functions of the token's value alone.
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
    bins_per_unit = static_cast<float>(kRest / (bits * 0.6931471805599453 * temperature));
  }

  // Rises as the value falls. REQUIRES: x above minus infinity, not above `best`.
  __device__ int BinOf(float x) const {
    if (x == best) return 0;
    const float place = (best - x) * bins_per_unit;
    return place < static_cast<float>(kRest) ? static_cast<int>(place) : kRest;
  }
  __device__ double ShareOf(float x) const {
    // Equal logits have equal weight even where both are infinite.
    return x == best ? 1.0 : exp((static_cast<double>(x) - best) / temperature);
  }
  __device__ Weight WeightOf(float x) const { return static_cast<Weight>(ShareOf(x) * one); }
};

__device__ Weight WarpSum(Weight x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

__device__ int TokenBlocks(const SelectionCall& call) {
  return (call.logits.vocabulary + kTokensPerBlock - 1) / kTokensPerBlock;
}

// --- 1. Sums of the bins --------------------------------------------------------------------
__global__ void __launch_bounds__(kThreads) BinKernel(SelectionCall call) {
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
  for (int i = me; i < kBins; i += kThreads) weights[i] = 0, counts[i] = 0;
  __syncthreads();
  const int end = min(begin + kTokensPerBlock, view.vocabulary);
  const double least = fmin(static_cast<double>(request.min_p), 1.0);
  Weight likely = 0;
  for (int token = begin + me; token < end; token += kThreads) {
    const float x = view.Adjusted(token);
    if (x == -INFINITY) continue;
    const int bin = weighing.BinOf(x);
    atomicAdd(&counts[bin], 1u);
    if (bin == kRest) continue;
    const double share = weighing.ShareOf(x);
    const auto weight = static_cast<Weight>(share * weighing.one);
    if (weight > 0) atomicAdd(&weights[bin], weight);
    if (share >= least) likely += weight;
  }
  __syncthreads();
  DrawBins& sums = call.bins[draw];
  for (int i = me; i < kBins; i += kThreads) {
    if (counts[i] > 0) atomicAdd(&sums.counts[i], counts[i]);
    if (weights[i] > 0) atomicAdd(&sums.weights[i], weights[i]);
  }
  if (request.min_p > 0.0f) {
    likely = WarpSum(likely);
    if (me % 32 == 0 && likely > 0) atomicAdd(&call.states[draw].likely, likely);
  }
}

// --- 2. Searches ----------------------------------------------------------------------------
struct SearchMemory {
  Weight amounts[kBins];  // weights of bins or digits; or gathered tokens
  unsigned counts[kBins];
  Weight warps[kThreads / 32];
  Weight before;  // of the slot found
  int slot;
};

// Sum over the block, known to every thread.
__device__ Weight BlockSum(Weight x, SearchMemory& memory) {
  x = WarpSum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) memory.warps[threadIdx.x / 32] = x;
  __syncthreads();
  Weight sum = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += memory.warps[warp];
  return sum;
}

// The first of kBins slots at which the running sum of amount(slot) reaches `need`, in memory.slot,
// and the sum before it, in memory.before. REQUIRES: 1 <= need <= the sum of all.
template <typename Amount>
__device__ void FindSlot(const Amount& amount, Weight need, SearchMemory& memory) {
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
__device__ void SortGathered(int count, Weight* tokens) {
  int size = 1;
  while (size < count) size *= 2;
  const int me = static_cast<int>(threadIdx.x);
  for (int i = count + me; i < size; i += kThreads) tokens[i] = ~Weight{0};
  __syncthreads();
  for (int run = 2; run <= size; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      for (int i = me; i < size; i += kThreads) {
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

struct Search {
  const SelectionCall& call;
  const SelectionRequest& request;
  const RequestView& view;
  const Weighing& weighing;
  DrawState state;
  Stage stage;
};

// Where the search ends: the weight up to and with its token, and (for a draw) the token.
struct Found {
  Weight weight;
  int token;
};

// Few tokens in the bin: they were gathered.
__device__ Found FindAmongFew(const Search& search, const std::uint64_t* gathered, int count,
                              SearchMemory& memory) {
  const int me = static_cast<int>(threadIdx.x);
  for (int i = me; i < count; i += kThreads) memory.amounts[i] = gathered[i];
  SortGathered(count, memory.amounts);
  const auto weight_at = [&](int slot) {
    if (slot >= count) return Weight{0};
    return search.weighing.WeightOf(
        ValueOf(static_cast<std::uint32_t>(memory.amounts[slot] >> 32)));
  };
  if (search.stage == Stage::kTopK) {
    const int last = static_cast<int>(search.state.need) - 1;
    Weight mine = 0;
    for (int slot = me; slot <= last; slot += kThreads) mine += weight_at(slot);
    return {search.state.weight_before + BlockSum(mine, memory), kNone};
  }
  FindSlot(weight_at, search.state.need, memory);
  const int slot = memory.slot;
  return {search.state.weight_before + memory.before + weight_at(slot),
          static_cast<int>(memory.amounts[slot] & 0xffffffffu)};
}

// Too many to sort: the key is found digit by digit, then the token among those of equal value.
__device__ Found FindAmongMany(const Search& search, SearchMemory& memory) {
  const int me = static_cast<int>(threadIdx.x);
  const RequestView& view = search.view;
  Weight need = search.state.need, weight = search.state.weight_before;
  std::uint32_t key = 0, known = 0;
  const auto in_bin = [&](float x) {
    return x > -INFINITY && search.weighing.BinOf(x) == search.state.bin;
  };
  for (const int shift : {21, 10, 0}) {
    const std::uint32_t digits = shift == 0 ? 1023u : 2047u;
    for (int i = me; i < kBins; i += kThreads) memory.amounts[i] = 0, memory.counts[i] = 0;
    __syncthreads();
    for (int token = me; token < view.vocabulary; token += kThreads) {
      const float x = view.Adjusted(token);
      if (!in_bin(x) || (KeyOf(x) & known) != key) continue;
      const auto digit = (KeyOf(x) >> shift) & digits;
      atomicAdd(&memory.counts[digit], 1u);
      const Weight w = search.weighing.WeightOf(x);
      if (w > 0) atomicAdd(&memory.amounts[digit], w);
    }
    __syncthreads();
    if (search.stage == Stage::kTopK) {
      FindSlot([&](int slot) { return Weight{memory.counts[slot]}; }, need, memory);
    } else {
      FindSlot([&](int slot) { return memory.amounts[slot]; }, need, memory);
    }
    need -= memory.before;
    const int slot = memory.slot;
    Weight mine = 0;
    for (int i = me; i < slot; i += kThreads) mine += memory.amounts[i];
    weight += BlockSum(mine, memory);
    key |= static_cast<std::uint32_t>(slot) << shift;
    known |= digits << shift;
    __syncthreads();
  }
  // All that are left are equal: which of them, by id.
  const Weight each = search.weighing.WeightOf(ValueOf(key));
  Weight place = search.stage == Stage::kTopK ? need - 1 : (need - 1) / each;
  weight += (place + 1) * each;
  if (search.stage != Stage::kDraw) return {weight, kNone};
  for (int first = 0; first < view.vocabulary; first += kThreads) {
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
__device__ void BeginSearch(const SelectionRequest& request, Stage stage, const DrawBins& bins,
                            DrawState& state, SearchMemory& memory) {
  state.bin = kNone;
  state.gathered = 0;
  Weight need = 0;
  if (stage == Stage::kTopK) {
    if (request.top_k <= 0) return;
    Weight mine = 0;
    for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads) mine += bins.counts[i];
    need = static_cast<Weight>(request.top_k);
    if (need >= BlockSum(mine, memory)) return;
    FindSlot([&](int slot) { return Weight{bins.counts[slot]}; }, need, memory);
  } else {
    const auto kept = static_cast<double>(state.kept);
    if (stage == Stage::kTopP) {
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
  if (bin == kRest) return;  // top-k reaches among what weighs nothing: all that weighs is kept
  state.need = need - memory.before;
  Weight mine = 0;
  for (int i = static_cast<int>(threadIdx.x); i < bin; i += kThreads) mine += bins.weights[i];
  state.weight_before = BlockSum(mine, memory);
  state.bin = bin;
}

// One block a draw: ends the search of `ended`, begins that of `begun`; kFirst and kLast say that
// there is none of the former, of the latter.
template <bool kFirst, bool kLast>
__global__ void __launch_bounds__(kThreads)
    SearchKernel(SelectionCall call, Stage ended, Stage begun) {
  __shared__ SearchMemory memory;
  const int draw = static_cast<int>(blockIdx.x);
  const int index = call.draws[draw];
  const SelectionRequest request = call.requests[index];
  const RowScore score = call.scores[index];
  if (score.best == -INFINITY) return;
  const DrawBins& bins = call.bins[draw];
  DrawState state = call.states[draw];
  if (kFirst) {
    Weight mine = 0;
    for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads) mine += bins.weights[i];
    state.kept = BlockSum(mine, memory);
  } else if (state.bin != kNone) {
    const RequestView view(call, request);
    const Weighing weighing(call, request, score.best);
    const Search search{call, request, view, weighing, state, ended};
    const unsigned count = bins.counts[state.bin];
    const Found found =
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

__global__ void __launch_bounds__(kThreads) GatherKernel(SelectionCall call) {
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
  for (int token = begin + static_cast<int>(threadIdx.x); token < end; token += kThreads) {
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
  BinKernel<<<blocks, kThreads, 0, stream>>>(call);
  CheckLaunch("bins of draws");
  Stage stages[3];
  int count = 0;
  if (call.any_top_k) stages[count++] = Stage::kTopK;
  if (call.any_top_p) stages[count++] = Stage::kTopP;
  stages[count++] = Stage::kDraw;
  SearchKernel<true, false><<<draws, kThreads, 0, stream>>>(call, stages[0], stages[0]);
  for (int i = 0; i < count; ++i) {
    GatherKernel<<<blocks, kThreads, 0, stream>>>(call);
    if (i + 1 < count) {
      SearchKernel<false, false><<<draws, kThreads, 0, stream>>>(call, stages[i], stages[i + 1]);
    } else {
      SearchKernel<false, true><<<draws, kThreads, 0, stream>>>(call, stages[i], stages[i]);
    }
    CheckLaunch("draws");
  }
}

}  // namespace banyan::cuda
