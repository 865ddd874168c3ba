#include "kernels/host_choices.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "base/error.h"

namespace banyan {
namespace {

constexpr std::int64_t kTokensTogether = 1024;  // of a fused row, for one worker

// The sums of all rows that panels need them of, each computed once.
class StepRowSums {
 public:
  StepRowSums(const LogitRows& logits, std::span<const PanelRow> panels,
              const HostWorkers& workers) {
    for (const PanelRow& panel : panels) {
      if (!panel.NeedsRowSums()) continue;
      place_.emplace(panel.prior, 0);
      for (const ExpertRow& expert : panel.experts) place_.emplace(expert.row, 0);
    }
    std::vector<std::int32_t> rows;
    for (auto& [row, place] : place_) {
      place = rows.size();
      rows.push_back(row);
    }
    sums_.assign(rows.size(), LogSumExp(0.0f, {}));
    workers.for_each(static_cast<std::int64_t>(rows.size()), [&](std::int64_t i) {
      const auto at = static_cast<size_t>(i);
      sums_[at] = workers.log_sum(logits.Row(rows[at]));
    });
  }

  const LogSumExp& Of(std::int32_t row) const { return sums_[place_.at(row)]; }

 private:
  std::map<std::int32_t, size_t> place_;  // row → place in sums_
  std::vector<LogSumExp> sums_;
};

// The panels of a step with betas and abstentions that are known.
class KnownPanels {
 public:
  KnownPanels(const LogitRows& logits, const StepPanels& step, const StepRowSums& sums,
              const HostWorkers& workers) {
    size_t count = 0;
    for (const PanelRow& panel : step.panels) count += panel.experts.size();
    experts_.reserve(count);  // spans into it must stay
    for (const PanelRow& panel : step.panels) {
      const size_t first = experts_.size();
      experts_.insert(experts_.end(), panel.experts.begin(), panel.experts.end());
      PanelRow& known = panels_.emplace_back(panel);
      known.experts = std::span(experts_).subspan(first);
      known.betas = BetaSource::kGiven;
      known.abstentions = AbstentionSource::kGiven;
      first_.push_back(first);
      TakeEarlier(step, panel, first);
      if (!panel.MeasuresAbstentions()) continue;
      for (size_t k = first; k < experts_.size(); ++k) {
        const std::int32_t row = experts_[k].row;
        experts_[k].abstention = ShareOf(logits.Row(row), sums.Of(row), panel.null_tokens);
      }
    }
    MeasureBetas(logits, step.panels, workers);
  }

  const std::vector<PanelRow>& panels() const { return panels_; }
  std::vector<double> Each(size_t panel, double ExpertRow::*value) const {
    std::vector<double> values;
    for (const ExpertRow& expert : panels_[panel].experts) values.push_back(expert.*value);
    return values;
  }

 private:
  void TakeEarlier(const StepPanels& step, const PanelRow& panel, size_t first) {
    const auto take = [&](const std::vector<double>& measured, double ExpertRow::*value) {
      BANYAN_CHECK(measured.size() == panel.experts.size());
      for (size_t k = 0; k < measured.size(); ++k) experts_[first + k].*value = measured[k];
    };
    const bool betas = panel.betas == BetaSource::kEarlier;
    const bool abstentions = panel.abstentions == AbstentionSource::kEarlier;
    if (!betas && !abstentions) return;
    BANYAN_CHECK(step.earlier != nullptr);
    const TokenChoice& earlier =
        static_cast<const HostChoices*>(step.earlier)->at(panel.earlier_choice);
    if (betas) take(earlier.betas, &ExpertRow::beta);
    if (abstentions) take(earlier.abstentions, &ExpertRow::abstention);
  }

  void MeasureBetas(const LogitRows& logits, std::span<const PanelRow> asked,
                    const HostWorkers& workers) {
    std::vector<std::pair<size_t, std::int32_t>> wanted;  // expert, prior's row
    for (size_t i = 0; i < asked.size(); ++i) {
      if (!asked[i].MeasuresBetas()) continue;
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

std::vector<FusedPanel> ReadyPanels(const LogitRows& logits, const std::vector<PanelRow>& panels,
                                    const StepRowSums& sums, const HostWorkers& workers) {
  std::vector<std::optional<FusedPanel>> made(panels.size());
  workers.for_each(static_cast<std::int64_t>(panels.size()), [&](std::int64_t i) {
    const auto at = static_cast<size_t>(i);
    made[at].emplace(logits, panels[at], [&](std::int32_t row) { return sums.Of(row); });
  });
  std::vector<FusedPanel> ready;
  for (std::optional<FusedPanel>& panel : made) ready.push_back(std::move(*panel));
  return ready;
}

// All panels' fused rows, in parts.
std::vector<float> FusedRows(std::int64_t columns, const std::vector<FusedPanel>& panels,
                             const HostWorkers& workers) {
  const std::int64_t parts = (columns + kTokensTogether - 1) / kTokensTogether;
  std::vector<float> fused(panels.size() * static_cast<size_t>(columns));
  workers.for_each(static_cast<std::int64_t>(panels.size()) * parts, [&](std::int64_t at) {
    const std::int64_t panel = at / parts, first = at % parts * kTokensTogether;
    const std::int64_t count = std::min(kTokensTogether, columns - first);
    panels[static_cast<size_t>(panel)].Fuse(
        first, {fused.data() + panel * columns + first, static_cast<size_t>(count)});
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
  const StepRowSums sums(logits, step.panels, workers);
  const KnownPanels known(logits, step, sums, workers);
  const std::vector<FusedPanel> ready = ReadyPanels(logits, known.panels(), sums, workers);
  const std::vector<float> fused = FusedRows(logits.columns, ready, workers);
  std::vector<TokenChoice> of_plain(plain.size()), of_fused(fused_requests.size());
  workers.select(logits, plain, of_plain);
  workers.select({fused.data(), logits.columns, logits.columns}, fused_requests, of_fused);
  workers.for_each(static_cast<std::int64_t>(of_fused.size()), [&](std::int64_t at) {
    TokenChoice& choice = of_fused[static_cast<size_t>(at)];
    const auto panel = static_cast<size_t>(fused_requests[static_cast<size_t>(at)].panel);
    if (choice.token >= 0) choice.expert = ready[panel].Winner(choice.token);
    if (step.panels[panel].MeasuresBetas()) choice.betas = known.Each(panel, &ExpertRow::beta);
    if (step.panels[panel].MeasuresAbstentions()) {
      choice.abstentions = known.Each(panel, &ExpertRow::abstention);
    }
  });
  for (size_t i = 0; i < plain.size(); ++i) choices[plain_at[i]] = std::move(of_plain[i]);
  for (size_t i = 0; i < fused_at.size(); ++i) choices[fused_at[i]] = std::move(of_fused[i]);
}

}  // namespace banyan
