// Fusing logits: several experts (each has read another context) and a prior (which has read none)
// write one stream together. The next token is chosen from the fused row as from any other. These
// functions are for backends whose logits are in host memory: double, rounded once. A device
// backend has its own; kMax of raw logits has the same bits everywhere. NaN counts as minus
// infinity.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "banyan/request.h"
#include "banyan/types.h"
#include "kernels/sampling.h"

namespace banyan {

// Penalty of a token that no expert finds plausible, in nats.
inline constexpr double kImplausible = 1000.0;

struct ExpertRow {
  std::int32_t row = 0;     // of the logits
  double beta = 0.0;        // contrast with the prior
  double relevance = 1.0;   // r, in (0, 1]
  double abstention = 0.0;  // probability that it said null first
};

// Where the betas of a panel come from.
enum class BetaSource {
  kGiven,     // ExpertRow::beta
  kMeasured,  // each expert's divergence from the prior in these very rows
  kMean,      // the mean of the measured ones
  kEarlier,   // measured by an earlier choice of the same panel, taken or not
};

// Where the probabilities of abstention come from.
enum class AbstentionSource { kGiven, kMeasured, kEarlier };

// One panel: the experts of one stream. Rows may serve several panels.
struct PanelRow {
  std::int32_t prior = 0;  // row of the logits
  FusionRule rule = FusionRule::kMax;
  double gamma = 2.5;                  // weight of the relevance
  std::span<const ExpertRow> experts;  // at least one
  PanelScores scores = PanelScores::kRaw;
  double plausibility = 0.0;
  double abstention = 0.0;  // with at least this probability of null an expert abstains; 0: none
  std::span<const TokenId> null_tokens;
  // Only Kernels::Choose accepts values other than kGiven.
  BetaSource betas = BetaSource::kGiven;
  AbstentionSource abstentions = AbstentionSource::kGiven;
  std::int32_t earlier_choice = -1;  // with kEarlier: index of that choice

  bool MeasuresBetas() const {
    return betas == BetaSource::kMeasured || betas == BetaSource::kMean;
  }
  bool MeasuresAbstentions() const { return abstentions == AbstentionSource::kMeasured; }
  // Whether the panel needs log(sum(exp)) of its rows.
  bool NeedsRowSums() const {
    return scores == PanelScores::kNormalised || plausibility > 0.0 || MeasuresAbstentions();
  }
};

// An expert's constants. A plausible token scores z_k (kMax) or log p_k, plus `bias`: log w_k, or
// gamma log r less the normaliser of z_k. Any other token scores its logit plus `own_bias`.
struct ExpertTerm {
  std::int32_t row = 0;
  std::int32_t silent = 0;  // 1: it abstains
  double beta = 0.0;
  double abstention = 0.0;
  double bias = 0.0;
  double weight = 1.0;
  double own_bias = 0.0;
  double least = 0.0;  // logits from here on are plausible
};
// The part that does not depend on the rows: all but silent, own_bias, least and normalisers.
std::vector<ExpertTerm> TermsOf(const PanelRow& panel);

// Logits in host memory.
struct LogitRows {
  const float* values = nullptr;
  std::int64_t stride = 0, columns = 0;
  std::span<const float> Row(std::int64_t row) const {
    return {values + row * stride, static_cast<size_t>(columns)};
  }
};

// log(sum(exp)) of a row of the logits, as a backend computes or has computed it.
using RowSums = std::function<LogSumExp(std::int32_t row)>;

// The probability of `tokens` by a row whose log(sum(exp)) is `sum`.
double ShareOf(std::span<const float> logits, const LogSumExp& sum,
               std::span<const TokenId> tokens);

// log(sum(exp(z))) in two parts. An infinite sum is the largest value's alone.
struct LogSum {
  double largest = 0.0, log_rest = 0.0;
  double Logprob(double z) const;
};

// A panel whose betas and abstentions are given, ready to fuse any token.
class FusedPanel {
 public:
  FusedPanel(const LogitRows& logits, const PanelRow& panel, const RowSums& row_sums);

  // out = the fused logits of tokens [first, first + out.size()).
  void Fuse(std::int64_t first, std::span<float> out) const;
  // Which expert (counted from 0, ties take the lowest) gave `token` its place: the largest
  // z_k(token) + gamma log r_k by kMax, else the largest w_k p_k(token).
  int Winner(TokenId token) const;

 private:
  double Z(size_t expert, size_t token) const;
  double Score(size_t expert, size_t token) const;
  double Fused(size_t token) const;

  LogitRows logits_;
  FusionRule rule_;
  std::span<const float> prior_;
  std::vector<ExpertTerm> terms_;
  std::vector<LogSum> sums_;  // [experts] of z; empty with kMax
};

// Jensen-Shannon divergence of the softmax of two rows, in bits: 0 for equal ones, at most 1.
double Divergence(std::span<const float> a, std::span<const float> b);

}  // namespace banyan
