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

// log(sum(exp(z))) of values given one by one, in two passes.
struct LogSum {
  double largest = kNever;
  double log_rest = 0.0;

  template <typename Value>
  LogSum(size_t count, const Value& value) {
    for (size_t v = 0; v < count; ++v) {
      if (value(v) > largest) largest = value(v);
    }
    if (std::isinf(largest)) return;
    double sum = 0.0;
    for (size_t v = 0; v < count; ++v) {
      const double z = value(v);
      if (!std::isnan(z)) sum += std::exp(z - largest);
    }
    log_rest = std::log(sum);
  }

  double Logprob(double z) const {
    if (std::isnan(z) || z == kNever) return kNever;
    if (std::isinf(largest)) return z == largest ? 0.0 : kNever;
    return (z - largest) - log_rest;
  }
};

// A panel's rows with their constants and, where its rule needs them, their sums.
class Panel {
 public:
  Panel(const LogitRows& logits, const PanelRow& panel)
      : logits_(logits),
        rule_(panel.rule),
        prior_(logits.Row(panel.prior)),
        terms_(TermsOf(panel)) {
    if (rule_ == FusionRule::kMax) return;
    for (size_t k = 0; k < terms_.size(); ++k) {
      sums_.emplace_back(prior_.size(), [&](size_t v) { return Z(k, v); });
    }
  }

  // What the experts are compared by.
  double Score(size_t k, size_t v) const {
    const double z = Z(k, v);
    if (rule_ == FusionRule::kMax) return z + terms_[k].bias;
    return sums_[k].Logprob(z) + terms_[k].bias;
  }

  double Fused(size_t v) const {
    double largest = kNever;
    for (size_t k = 0; k < terms_.size(); ++k) {
      const double score = Score(k, v);
      if (score > largest) largest = score;
    }
    if (rule_ == FusionRule::kMax || largest == kNever) return largest;
    double sum = 0.0;
    for (size_t k = 0; k < terms_.size(); ++k) {
      if (rule_ == FusionRule::kMixture) {
        sum += std::exp(Score(k, v) - largest);
      } else if (terms_[k].weight > 0.0) {
        sum += terms_[k].weight * sums_[k].Logprob(Z(k, v));
      }
    }
    return rule_ == FusionRule::kMixture ? largest + std::log(sum) : sum;
  }

  size_t experts() const { return terms_.size(); }

 private:
  double Z(size_t k, size_t v) const {
    return Contrast(terms_[k].beta, logits_.Row(terms_[k].row)[v], prior_[v]);
  }

  LogitRows logits_;
  FusionRule rule_;
  std::span<const float> prior_;
  std::vector<ExpertTerm> terms_;
  std::vector<LogSum> sums_;
};

}  // namespace

FusionRule ParseFusionRule(const std::string& name) {
  for (const FusionRule rule : {FusionRule::kMax, FusionRule::kMixture, FusionRule::kProduct}) {
    if (name == FusionRuleName(rule)) return rule;
  }
  Throw(ErrorKind::kUsage, "'{}' is no rule: expected max, mixture or product", name);
}

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
    terms.push_back({expert.row, expert.beta, bias, 1.0});
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

void FusePanel(const LogitRows& logits, const PanelRow& panel, std::span<float> out) {
  BANYAN_CHECK(static_cast<std::int64_t>(out.size()) == logits.columns);
  FusePanelPart(logits, panel, 0, out);
}

void FusePanelPart(const LogitRows& logits, const PanelRow& panel, std::int64_t first,
                   std::span<float> out) {
  BANYAN_CHECK(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= logits.columns);
  const Panel fused(logits, panel);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(fused.Fused(static_cast<size_t>(first) + i));
  }
}

int WinningExpert(const LogitRows& logits, const PanelRow& panel, TokenId token) {
  BANYAN_CHECK(token >= 0 && token < logits.columns);
  const Panel fused(logits, panel);
  int winner = 0;
  double best = kNever;
  for (size_t k = 0; k < fused.experts(); ++k) {
    const double score = fused.Score(k, static_cast<size_t>(token));
    if (score > best) {
      best = score;
      winner = static_cast<int>(k);
    }
  }
  return winner;
}

double Divergence(std::span<const float> a, std::span<const float> b) {
  BANYAN_CHECK(a.size() == b.size());
  const LogSum sum_a(a.size(), [&](size_t v) { return double{a[v]}; });
  const LogSum sum_b(b.size(), [&](size_t v) { return double{b[v]}; });
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
