#include "kernels/fusion.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace banyan {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double Contrast(double beta, float expert, float prior) {
  // Without contrast the prior does not matter, even where it is infinite.
  if (beta == 0.0) return expert;
  return (1.0 + beta) * expert - beta * prior;
}

// Of values given one by one, in two passes.
template <typename Value>
LogSum SumOver(size_t count, const Value& value) {
  LogSum sum{kNever, 0.0};
  for (size_t v = 0; v < count; ++v) {
    if (value(v) > sum.largest) sum.largest = value(v);
  }
  if (std::isinf(sum.largest)) return sum;
  double rest = 0.0;
  for (size_t v = 0; v < count; ++v) {
    const double z = value(v);
    if (!std::isnan(z)) rest += std::exp(z - sum.largest);
  }
  sum.log_rest = std::log(rest);
  return sum;
}

// The constant that makes a row's logits log-probabilities; none where they have no finite sum.
double NormaliserOf(const LogSumExp& sum) {
  return std::isfinite(sum.largest) ? double{sum.largest} + sum.log_rest : 0.0;
}

// Experts that abstain are silent, unless all do; weights are those of the others.
void Silence(const PanelRow& panel, std::vector<ExpertTerm>& terms) {
  if (panel.abstention <= 0.0) return;
  double voters = 0.0;
  for (ExpertTerm& term : terms) {
    term.silent = term.abstention >= panel.abstention ? 1 : 0;
    if (term.silent == 0) voters += term.weight;
  }
  const bool all = std::ranges::all_of(terms, [](const auto& term) { return term.silent != 0; });
  for (ExpertTerm& term : terms) {
    if (all) term.silent = 0;
    // A weight that is too small for a double leaves its bias as it is: only differences count.
    if (all || panel.rule == FusionRule::kMax || voters <= 0.0) continue;
    term.weight /= voters;
    term.bias -= std::log(voters);
  }
}

}  // namespace

FusionRule ParseFusionRule(const std::string& name) {
  for (const FusionRule rule : {FusionRule::kMax, FusionRule::kMixture, FusionRule::kProduct}) {
    if (name == FusionRuleName(rule)) return rule;
  }
  Throw(ErrorKind::kUsage, "'{}' is no rule: expected max, mixture or product", name);
}

PanelScores ParsePanelScores(const std::string& name) {
  for (const PanelScores scores : {PanelScores::kRaw, PanelScores::kNormalised}) {
    if (name == PanelScoresName(scores)) return scores;
  }
  Throw(ErrorKind::kUsage, "'{}' are no scores: expected normalised or raw", name);
}

const char* PanelScoresName(PanelScores scores) {
  return scores == PanelScores::kRaw ? "raw" : "normalised";
}

SwitchRule ParseSwitchRule(const std::string& name) {
  for (const SwitchRule rule : {SwitchRule::kWord, SwitchRule::kToken}) {
    if (name == SwitchRuleName(rule)) return rule;
  }
  Throw(ErrorKind::kUsage, "'{}' is no place to switch: expected word or token", name);
}

const char* SwitchRuleName(SwitchRule rule) { return rule == SwitchRule::kWord ? "word" : "token"; }

const char* FusionRuleName(FusionRule rule) {
  if (rule == FusionRule::kMixture) return "mixture";
  return rule == FusionRule::kProduct ? "product" : "max";
}

std::vector<ExpertTerm> TermsOf(const PanelRow& panel) {
  BANYAN_CHECK(!panel.experts.empty());
  std::vector<ExpertTerm> terms;
  double largest = kNever;
  for (const ExpertRow& expert : panel.experts) {
    BANYAN_CHECK(expert.relevance > 0.0 && expert.relevance <= 1.0);
    const double bias = panel.gamma * std::log(expert.relevance);
    ExpertTerm& term = terms.emplace_back();
    term.row = expert.row;
    term.beta = expert.beta;
    term.abstention = expert.abstention;
    term.bias = bias;
    term.own_bias = bias;
    term.least = kNever;
    largest = std::max(largest, bias);
  }
  if (panel.rule == FusionRule::kMax) return terms;
  double sum = 0.0;
  for (const ExpertTerm& term : terms) sum += std::exp(term.bias - largest);
  const double log_sum = largest + std::log(sum);
  for (ExpertTerm& term : terms) {
    term.bias -= log_sum;
    term.weight = std::exp(term.bias);
  }
  return terms;
}

double ShareOf(std::span<const float> logits, const LogSumExp& sum,
               std::span<const TokenId> tokens) {
  double share = 0.0;
  for (const TokenId token : tokens) {
    BANYAN_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size());
    share += std::exp(double{sum.Logprob(logits[static_cast<size_t>(token)])});
  }
  return std::min(share, 1.0);
}

double LogSum::Logprob(double z) const {
  if (std::isnan(z) || z == kNever) return kNever;
  if (std::isinf(largest)) return z == largest ? 0.0 : kNever;
  return (z - largest) - log_rest;
}

FusedPanel::FusedPanel(const LogitRows& logits, const PanelRow& panel, const RowSums& row_sums)
    : logits_(logits), rule_(panel.rule), prior_(logits.Row(panel.prior)), terms_(TermsOf(panel)) {
  Silence(panel, terms_);
  const bool max = rule_ == FusionRule::kMax;
  const bool normalised = panel.scores == PanelScores::kNormalised;
  double of_prior = 0.0;
  if (max && normalised) of_prior = NormaliserOf(row_sums(panel.prior));
  for (ExpertTerm& term : terms_) {
    if (!panel.NeedsRowSums()) break;
    const LogSumExp sum = row_sums(term.row);
    const double own = NormaliserOf(sum);
    if (panel.plausibility > 0.0) term.least = double{sum.largest} + std::log(panel.plausibility);
    term.own_bias = max && !normalised ? term.bias : term.bias - own;
    if (!max || !normalised) continue;
    term.bias -= own;
    if (term.beta != 0.0) term.bias -= term.beta * (own - of_prior);
  }
  if (max) return;
  for (size_t k = 0; k < terms_.size(); ++k) {
    sums_.push_back(SumOver(prior_.size(), [&](size_t v) { return Z(k, v); }));
  }
}

double FusedPanel::Z(size_t expert, size_t token) const {
  const ExpertTerm& term = terms_[expert];
  return Contrast(term.beta, logits_.Row(term.row)[token], prior_[token]);
}

// What the experts are compared by.
double FusedPanel::Score(size_t expert, size_t token) const {
  const ExpertTerm& term = terms_[expert];
  if (term.silent != 0) return kNever;
  const double own = logits_.Row(term.row)[token];
  if (!(own >= term.least)) return own + term.own_bias - kImplausible;
  const double z = Contrast(term.beta, logits_.Row(term.row)[token], prior_[token]);
  return (rule_ == FusionRule::kMax ? z : sums_[expert].Logprob(z)) + term.bias;
}

double FusedPanel::Fused(size_t token) const {
  double largest = kNever;
  for (size_t k = 0; k < terms_.size(); ++k) {
    const double score = Score(k, token);
    if (score > largest) largest = score;
  }
  if (rule_ == FusionRule::kMax || largest == kNever) return largest;
  double sum = 0.0;
  bool plausible = false;
  for (size_t k = 0; k < terms_.size(); ++k) {
    if (terms_[k].silent != 0) continue;
    if (rule_ == FusionRule::kMixture) {
      const double score = Score(k, token);
      if (score > kNever) sum += std::exp(score - largest);
    } else if (terms_[k].weight > 0.0) {
      sum += terms_[k].weight * sums_[k].Logprob(Z(k, token));
    }
    plausible = plausible || logits_.Row(terms_[k].row)[token] >= terms_[k].least;
  }
  if (rule_ == FusionRule::kMixture) return largest + std::log(sum);
  return plausible ? sum : sum - kImplausible;
}

void FusedPanel::Fuse(std::int64_t first, std::span<float> out) const {
  BANYAN_CHECK(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= logits_.columns);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(Fused(static_cast<size_t>(first) + i));
  }
}

int FusedPanel::Winner(TokenId token) const {
  BANYAN_CHECK(token >= 0 && token < logits_.columns);
  int winner = -1;
  double best = kNever;
  for (size_t k = 0; k < terms_.size(); ++k) {
    if (winner < 0 && terms_[k].silent == 0) winner = static_cast<int>(k);
    const double score = Score(k, static_cast<size_t>(token));
    if (score > best) {
      best = score;
      winner = static_cast<int>(k);
    }
  }
  return winner;
}

double Divergence(std::span<const float> a, std::span<const float> b) {
  BANYAN_CHECK(a.size() == b.size());
  const LogSum sum_a = SumOver(a.size(), [&](size_t v) { return double{a[v]}; });
  const LogSum sum_b = SumOver(b.size(), [&](size_t v) { return double{b[v]}; });
  double divergence = 0.0;
  for (size_t v = 0; v < a.size(); ++v) {
    const double p = std::exp(sum_a.Logprob(a[v])), q = std::exp(sum_b.Logprob(b[v]));
    const double middle = 0.5 * (p + q);
    if (p > 0.0) divergence += 0.5 * p * std::log2(p / middle);
    if (q > 0.0) divergence += 0.5 * q * std::log2(q / middle);
  }
  return std::clamp(divergence, 0.0, 1.0);
}

}  // namespace banyan
