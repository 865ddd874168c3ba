// Kernels of fused logits (panels.h).
#include "kernels/cuda/choices/panels.h"
#include "kernels/cuda/device/device.h"

namespace banyan::cuda {

namespace {

constexpr int kThreads = 512;
constexpr double kNever = -INFINITY;

// As in kernels/fusion.cc, operation by operation.
__device__ double Contrast(double beta, float expert, float prior) {
  if (beta == 0.0) return static_cast<double>(expert);
  return (1.0 + beta) * static_cast<double>(expert) - beta * static_cast<double>(prior);
}

__device__ double LogprobOf(double z, const ExpertSum& sum) {
  if (isnan(z) || z == kNever) return kNever;
  if (isinf(sum.largest)) return z == sum.largest ? 0.0 : kNever;
  return (z - sum.largest) - sum.log_rest;
}

struct Larger {
  __device__ double operator()(double a, double b) const { return a > b ? a : b; }
};
struct Sum {
  __device__ double operator()(double a, double b) const { return a + b; }
};

// Over the block, known to every thread.
template <typename Combine>
__device__ double Reduce(double x, Combine combine) {
  __shared__ double scratch[kThreads / 32];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    x = combine(x, __shfl_xor_sync(0xffffffffu, x, offset));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  x = scratch[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) x = combine(x, scratch[warp]);
  return x;
}

// log(sum(exp(value(v)))) over the vocabulary, NaN counted as minus infinity.
template <typename Value>
__device__ ExpertSum SumOver(int vocabulary, const Value& value) {
  double largest = kNever;
  for (int v = static_cast<int>(threadIdx.x); v < vocabulary; v += kThreads) {
    const double z = value(v);
    if (z > largest) largest = z;
  }
  ExpertSum result;
  result.largest = Reduce(largest, Larger{});
  if (isinf(result.largest)) return result;
  double sum = 0.0;
  for (int v = static_cast<int>(threadIdx.x); v < vocabulary; v += kThreads) {
    const double z = value(v);
    if (!isnan(z)) sum += exp(z - result.largest);
  }
  result.log_rest = log(Reduce(sum, Sum{}));
  return result;
}

__device__ const float* RowOf(const DeviceLogits& logits, std::int32_t row) {
  return logits.values + row * logits.stride;
}

// One block an expert.
__global__ void __launch_bounds__(kThreads) ExpertSumKernel(FusionCall call) {
  const ExpertTerm term = call.terms[blockIdx.x];
  const DevicePanel panel = call.panels[call.panel_of_term[blockIdx.x]];
  if (panel.rule == static_cast<int>(FusionRule::kMax)) return;
  const float* expert = RowOf(call.logits, term.row);
  const float* prior = RowOf(call.logits, panel.prior);
  const ExpertSum sum = SumOver(call.logits.vocabulary,
                                [&](int v) { return Contrast(term.beta, expert[v], prior[v]); });
  if (threadIdx.x == 0) call.sums[blockIdx.x] = sum;
}

// What the experts of a panel are compared by; as in kernels/fusion.cc.
__device__ double ScoreOf(const FusionCall& call, const DevicePanel& panel, int k, int v) {
  const ExpertTerm& term = call.terms[panel.first + k];
  if (term.silent != 0) return kNever;
  const float own = RowOf(call.logits, term.row)[v];
  if (!(static_cast<double>(own) >= term.least)) {
    return static_cast<double>(own) + term.own_bias - kImplausible;
  }
  const double z = Contrast(term.beta, own, RowOf(call.logits, panel.prior)[v]);
  if (panel.rule == static_cast<int>(FusionRule::kMax)) return z + term.bias;
  return LogprobOf(z, call.sums[panel.first + k]) + term.bias;
}

__device__ double FusedOf(const FusionCall& call, const DevicePanel& panel, int v) {
  double largest = kNever;
  for (int k = 0; k < panel.count; ++k) {
    const double score = ScoreOf(call, panel, k, v);
    if (score > largest) largest = score;
  }
  if (panel.rule == static_cast<int>(FusionRule::kMax) || largest == kNever) return largest;
  const bool mixture = panel.rule == static_cast<int>(FusionRule::kMixture);
  double sum = 0.0;
  bool plausible = false;
  for (int k = 0; k < panel.count; ++k) {
    const ExpertTerm& term = call.terms[panel.first + k];
    if (term.silent != 0) continue;
    const float own = RowOf(call.logits, term.row)[v];
    if (mixture) {
      const double score = ScoreOf(call, panel, k, v);
      if (score > kNever) sum += exp(score - largest);
    } else if (term.weight > 0.0) {
      const double z = Contrast(term.beta, own, RowOf(call.logits, panel.prior)[v]);
      sum += term.weight * LogprobOf(z, call.sums[panel.first + k]);
    }
    plausible = plausible || static_cast<double>(own) >= term.least;
  }
  if (mixture) return largest + log(sum);
  return plausible ? sum : sum - kImplausible;
}

// One thread a token of a panel.
__global__ void FuseKernel(FusionCall call, float* out, std::int64_t out_stride) {
  const int blocks = (call.logits.vocabulary + kThreads - 1) / kThreads;
  const int index = static_cast<int>(blockIdx.x) / blocks;
  const int v = static_cast<int>(blockIdx.x) % blocks * kThreads + static_cast<int>(threadIdx.x);
  if (v >= call.logits.vocabulary) return;
  out[index * out_stride + v] = static_cast<float>(FusedOf(call, call.panels[index], v));
}

__device__ int WinnerOf(const FusionCall& call, const DevicePanel& panel, std::int32_t token) {
  int winner = -1;
  double best = kNever;
  for (int k = 0; k < panel.count; ++k) {
    if (winner < 0 && call.terms[panel.first + k].silent == 0) winner = k;
    const double score = ScoreOf(call, panel, k, token);
    if (score > best) {
      best = score;
      winner = k;
    }
  }
  return winner;
}

__global__ void ChosenWinnerKernel(FusionCall call, const std::int32_t* choices,
                                   const ScoreResult* results, std::int32_t* winners) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index >= call.panels_count) return;
  const std::int32_t token = results[choices[index]].token;
  winners[index] = token == kNone ? kNone : WinnerOf(call, call.panels[index], token);
}

// By the whole block; known to every thread.
__device__ double DivergenceOf(const DeviceLogits& logits, std::int32_t first,
                               std::int32_t second) {
  const float* a = RowOf(logits, first);
  const float* b = RowOf(logits, second);
  const auto of_a = [&](int v) { return static_cast<double>(a[v]); };
  const auto of_b = [&](int v) { return static_cast<double>(b[v]); };
  const ExpertSum sum_a = SumOver(logits.vocabulary, of_a);
  const ExpertSum sum_b = SumOver(logits.vocabulary, of_b);
  double divergence = 0.0;
  for (int v = static_cast<int>(threadIdx.x); v < logits.vocabulary; v += kThreads) {
    const double p = exp(LogprobOf(of_a(v), sum_a)), q = exp(LogprobOf(of_b(v), sum_b));
    const double middle = 0.5 * (p + q);
    if (p > 0.0) divergence += 0.5 * p * log2(p / middle);
    if (q > 0.0) divergence += 0.5 * q * log2(q / middle);
  }
  return fmin(fmax(Reduce(divergence, Sum{}), 0.0), 1.0);
}

// One block an expert.
__global__ void __launch_bounds__(kThreads) MeasureBetasKernel(FusionCall call) {
  const DevicePanel panel = call.panels[call.panel_of_term[blockIdx.x]];
  const bool measures = panel.betas == static_cast<int>(BetaSource::kMeasured) ||
                        panel.betas == static_cast<int>(BetaSource::kMean);
  if (!measures) return;
  const double found = DivergenceOf(call.logits, call.terms[blockIdx.x].row, panel.prior);
  if (threadIdx.x == 0) call.terms[blockIdx.x].beta = found;
}

// One block a row: those of the experts, then those of the priors.
__global__ void __launch_bounds__(kThreads) RowSumKernel(FusionCall call) {
  const int index = static_cast<int>(blockIdx.x);
  const bool expert = index < call.terms_count;
  const DevicePanel panel =
      call.panels[expert ? call.panel_of_term[index] : index - call.terms_count];
  if (panel.needs_rows == 0) return;
  const float* row = RowOf(call.logits, expert ? call.terms[index].row : panel.prior);
  const ExpertSum sum =
      SumOver(call.logits.vocabulary, [&](int v) { return static_cast<double>(row[v]); });
  if (threadIdx.x == 0) call.row_sums[index] = sum;
}

// The probability of the panel's null tokens.
__device__ double NullShare(const FusionCall& call, const DevicePanel& panel, int k) {
  const float* row = RowOf(call.logits, call.terms[panel.first + k].row);
  double share = 0.0;
  for (int i = 0; i < panel.null_count; ++i) {
    const double logit = static_cast<double>(row[call.null_tokens[panel.first_null + i]]);
    share += exp(LogprobOf(logit, call.row_sums[panel.first + k]));
  }
  return fmin(share, 1.0);
}

// Experts that abstain are silent, unless all do; weights are those of the others.
__device__ void Silence(const DevicePanel& panel, ExpertTerm* terms) {
  if (panel.abstention <= 0.0) return;
  double voters = 0.0;
  bool all = true;
  for (int k = 0; k < panel.count; ++k) {
    terms[k].silent = terms[k].abstention >= panel.abstention ? 1 : 0;
    if (terms[k].silent != 0) continue;
    voters += terms[k].weight;
    all = false;
  }
  for (int k = 0; k < panel.count; ++k) {
    if (all) terms[k].silent = 0;
    if (all || panel.rule == static_cast<int>(FusionRule::kMax) || voters <= 0.0) continue;
    terms[k].weight /= voters;
    terms[k].bias -= log(voters);
  }
}

__device__ double NormaliserOf(const ExpertSum& sum) {
  return isfinite(sum.largest) ? sum.largest + sum.log_rest : 0.0;
}

// What the rows' sums say: which tokens are plausible, and what makes scores normalised.
__device__ void Normalise(const FusionCall& call, int index) {
  const DevicePanel panel = call.panels[index];
  if (panel.needs_rows == 0) return;
  const bool max = panel.rule == static_cast<int>(FusionRule::kMax);
  const double of_prior = NormaliserOf(call.row_sums[call.terms_count + index]);
  for (int k = 0; k < panel.count; ++k) {
    ExpertTerm& term = call.terms[panel.first + k];
    const ExpertSum sum = call.row_sums[panel.first + k];
    const double own = NormaliserOf(sum);
    if (panel.limited != 0) term.least = sum.largest + panel.log_plausibility;
    term.own_bias = max && panel.normalised == 0 ? term.bias : term.bias - own;
    if (!max || panel.normalised == 0) continue;
    term.bias -= own;
    if (term.beta != 0.0) term.bias -= term.beta * (own - of_prior);
  }
}

// One thread a panel.
__global__ void SettleTermsKernel(FusionCall call, MeasuredExperts earlier,
                                  MeasuredExperts measured) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index >= call.panels_count) return;
  const DevicePanel panel = call.panels[index];
  ExpertTerm* terms = call.terms + panel.first;
  if (panel.betas == static_cast<int>(BetaSource::kMean)) {
    double sum = 0.0;
    for (int k = 0; k < panel.count; ++k) sum += terms[k].beta;
    for (int k = 0; k < panel.count; ++k) terms[k].beta = sum / static_cast<double>(panel.count);
  }
  for (int k = 0; k < panel.count; ++k) {
    if (panel.betas == static_cast<int>(BetaSource::kEarlier)) {
      terms[k].beta = earlier.betas[panel.earlier + k];
    }
    if (panel.abstentions == static_cast<int>(AbstentionSource::kEarlier)) {
      terms[k].abstention = earlier.abstentions[panel.earlier + k];
    } else if (panel.abstentions == static_cast<int>(AbstentionSource::kMeasured)) {
      terms[k].abstention = NullShare(call, panel, k);
    }
    if (measured.betas == nullptr) continue;
    measured.betas[panel.first + k] = terms[k].beta;
    measured.abstentions[panel.first + k] = terms[k].abstention;
  }
  Silence(panel, terms);
  Normalise(call, index);
}

void SumExperts(cudaStream_t stream, const FusionCall& call) {
  if (!call.any_sums) return;
  ExpertSumKernel<<<static_cast<unsigned>(call.terms_count), kThreads, 0, stream>>>(call);
  CheckLaunch("sums of experts");
}

}  // namespace

void SettleTerms(cudaStream_t stream, const FusionCall& call, const MeasuredExperts& earlier,
                 const MeasuredExperts& measured) {
  if (call.panels_count == 0) return;
  MeasureBetasKernel<<<static_cast<unsigned>(call.terms_count), kThreads, 0, stream>>>(call);
  CheckLaunch("divergence of experts");
  if (call.any_row_sums) {
    const auto rows = static_cast<unsigned>(call.terms_count + call.panels_count);
    RowSumKernel<<<rows, kThreads, 0, stream>>>(call);
    CheckLaunch("sums of rows");
  }
  const auto blocks = static_cast<unsigned>((call.panels_count + 31) / 32);
  SettleTermsKernel<<<blocks, 32, 0, stream>>>(call, earlier, measured);
  CheckLaunch("terms of experts");
}

void FuseRows(cudaStream_t stream, const FusionCall& call, float* out, std::int64_t out_stride) {
  if (call.panels_count == 0) return;
  SumExperts(stream, call);
  const auto blocks = static_cast<unsigned>((call.logits.vocabulary + kThreads - 1) / kThreads);
  FuseKernel<<<static_cast<unsigned>(call.panels_count) * blocks, kThreads, 0, stream>>>(
      call, out, out_stride);
  CheckLaunch("fusion of logits");
}

void FindChosenExperts(cudaStream_t stream, const FusionCall& call, const std::int32_t* choices,
                       const ScoreResult* results, std::int32_t* winners) {
  if (call.panels_count == 0) return;
  const auto blocks = static_cast<unsigned>((call.panels_count + 31) / 32);
  ChosenWinnerKernel<<<blocks, 32, 0, stream>>>(call, choices, results, winners);
  CheckLaunch("winning experts");
}

}  // namespace banyan::cuda
