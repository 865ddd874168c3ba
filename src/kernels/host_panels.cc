#include "kernels/host_panels.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "kernels/host_choices.h"

namespace banyan {
namespace {

constexpr std::int64_t kTokensTogether = 1024;  // of a fused row, for one worker

bool Measures(const PanelRow& panel) {
  return panel.betas == BetaSource::kMeasured || panel.betas == BetaSource::kMean;
}

// The panels of a step with betas that are known.
class KnownPanels {
 public:
  KnownPanels(const LogitRows& logits, const StepPanels& step, const HostWorkers& workers) {
    size_t count = 0;
    for (const PanelRow& panel : step.panels) count += panel.experts.size();
    experts_.reserve(count);  // spans into it must stay
    for (const PanelRow& panel : step.panels) {
      const size_t first = experts_.size();
      experts_.insert(experts_.end(), panel.experts.begin(), panel.experts.end());
      PanelRow& known = panels_.emplace_back(panel);
      known.experts = std::span(experts_).subspan(first);
      known.betas = BetaSource::kGiven;
      first_.push_back(first);
      if (panel.betas == BetaSource::kEarlier) TakeEarlier(step, panel, first);
    }
    Measure(logits, step.panels, workers);
  }

  const std::vector<PanelRow>& panels() const { return panels_; }
  std::vector<double> BetasOf(size_t panel) const {
    std::vector<double> betas;
    for (const ExpertRow& expert : panels_[panel].experts) betas.push_back(expert.beta);
    return betas;
  }

 private:
  void TakeEarlier(const StepPanels& step, const PanelRow& panel, size_t first) {
    BANYAN_CHECK(step.earlier != nullptr);
    const std::vector<double>& betas =
        static_cast<const HostChoices*>(step.earlier)->BetasOf(panel.earlier_choice);
    BANYAN_CHECK(betas.size() == panel.experts.size());
    for (size_t k = 0; k < betas.size(); ++k) experts_[first + k].beta = betas[k];
  }

  void Measure(const LogitRows& logits, std::span<const PanelRow> asked,
               const HostWorkers& workers) {
    std::vector<std::pair<size_t, std::int32_t>> wanted;  // expert, prior's row
    for (size_t i = 0; i < asked.size(); ++i) {
      if (!Measures(asked[i])) continue;
      for (size_t k = 0; k < asked[i].experts.size(); ++k) {
        wanted.emplace_back(first_[i] + k, asked[i].prior);
      }
    }
    workers.for_each(static_cast<std::int64_t>(wanted.size()), [&](std::int64_t at) {
      const auto& [expert, prior] = wanted[static_cast<size_t>(at)];
      experts_[expert].beta = Divergence(logits.Row(experts_[expert].row), logits.Row(prior));
    });
    for (size_t i = 0; i < asked.size(); ++i) {
      if (asked[i].betas != BetaSource::kMean) continue;
      const auto begin = experts_.begin() + static_cast<std::ptrdiff_t>(first_[i]);
      const auto end = begin + static_cast<std::ptrdiff_t>(asked[i].experts.size());
      const double sum = std::accumulate(
          begin, end, 0.0,
          [](double total, const ExpertRow& expert) { return total + expert.beta; });
      const double mean = sum / static_cast<double>(asked[i].experts.size());
      std::for_each(begin, end, [mean](ExpertRow& expert) { expert.beta = mean; });
    }
  }

  std::vector<ExpertRow> experts_;
  std::vector<PanelRow> panels_;
  std::vector<size_t> first_;  // [panels] in experts_
};

// All panels' fused rows. Rules without a sum over the vocabulary are taken in parts.
std::vector<float> FusedRows(const LogitRows& logits, const std::vector<PanelRow>& panels,
                             const HostWorkers& workers) {
  struct Part {
    size_t panel;
    std::int64_t first, count;
  };
  std::vector<Part> parts;
  for (size_t i = 0; i < panels.size(); ++i) {
    const std::int64_t together =
        panels[i].rule == FusionRule::kMax ? kTokensTogether : logits.columns;
    for (std::int64_t first = 0; first < logits.columns; first += together) {
      parts.push_back({i, first, std::min(together, logits.columns - first)});
    }
  }
  std::vector<float> fused(panels.size() * static_cast<size_t>(logits.columns));
  workers.for_each(static_cast<std::int64_t>(parts.size()), [&](std::int64_t at) {
    const Part& part = parts[static_cast<size_t>(at)];
    float* row = fused.data() + static_cast<std::int64_t>(part.panel) * logits.columns;
    FusePanelPart(logits, panels[part.panel], part.first,
                  {row + part.first, static_cast<size_t>(part.count)});
  });
  return fused;
}

}  // namespace

void ChooseOnHost(const LogitRows& logits, std::span<const SamplingRow> requests,
                  const StepPanels& step, const HostWorkers& workers,
                  std::unique_ptr<PendingChoices>& pending) {
  const std::span<TokenChoice> choices = HostChoices::RoomFor(requests.size(), pending);
  if (step.panels.empty()) return workers.select(logits, requests, choices);
  std::vector<SamplingRow> plain, fused_requests;
  std::vector<size_t> plain_at, fused_at;
  for (size_t i = 0; i < requests.size(); ++i) {
    const bool fused = requests[i].panel >= 0;
    (fused ? fused_requests : plain).push_back(requests[i]);
    (fused ? fused_at : plain_at).push_back(i);
    if (!fused) continue;
    BANYAN_CHECK(requests[i].panel < static_cast<std::int32_t>(step.panels.size()));
    fused_requests.back().row = requests[i].panel;
  }
  const KnownPanels known(logits, step, workers);
  const std::vector<float> fused = FusedRows(logits, known.panels(), workers);
  std::vector<TokenChoice> of_plain(plain.size()), of_fused(fused_requests.size());
  workers.select(logits, plain, of_plain);
  workers.select({fused.data(), logits.columns, logits.columns}, fused_requests, of_fused);
  workers.for_each(static_cast<std::int64_t>(of_fused.size()), [&](std::int64_t at) {
    TokenChoice& choice = of_fused[static_cast<size_t>(at)];
    const auto panel = static_cast<size_t>(fused_requests[static_cast<size_t>(at)].panel);
    if (choice.token >= 0)
      choice.expert = WinningExpert(logits, known.panels()[panel], choice.token);
    if (Measures(step.panels[panel])) choice.betas = known.BetasOf(panel);
  });
  for (size_t i = 0; i < plain.size(); ++i) choices[plain_at[i]] = std::move(of_plain[i]);
  for (size_t i = 0; i < fused_at.size(); ++i) choices[fused_at[i]] = std::move(of_fused[i]);
}

}  // namespace banyan
