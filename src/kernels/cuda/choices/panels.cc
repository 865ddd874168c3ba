// Panels packed for the device, and their launches (panels.h).
#include "kernels/cuda/choices/panels.h"

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"

namespace banyan::cuda {

namespace {

DevicePanel HeaderOf(const PanelRow& panel) {
  DevicePanel header;
  header.log_plausibility = panel.plausibility > 0.0 ? std::log(panel.plausibility) : 0.0;
  header.abstention = panel.abstention;
  header.prior = panel.prior;
  header.rule = static_cast<std::int32_t>(panel.rule);
  header.count = static_cast<std::int32_t>(panel.experts.size());
  header.betas = static_cast<std::int32_t>(panel.betas);
  header.abstentions = static_cast<std::int32_t>(panel.abstentions);
  header.normalised = panel.scores == PanelScores::kNormalised ? 1 : 0;
  header.limited = panel.plausibility > 0.0 ? 1 : 0;
  header.needs_rows = panel.NeedsRowSums() ? 1 : 0;
  header.null_count = static_cast<std::int32_t>(panel.null_tokens.size());
  return header;
}

}  // namespace

FusionCall PanelFusion::Upload(const DeviceLogits& logits, std::span<const PanelRow> panels,
                               std::span<const std::int32_t> tokens,
                               std::span<const std::int32_t> earlier_first) {
  std::vector<DevicePanel> headers;
  std::vector<ExpertTerm> terms;
  std::vector<std::int32_t> panel_of_term;
  std::vector<TokenId> null_tokens;
  FusionCall call;
  for (const PanelRow& panel : panels) {
    const std::vector<ExpertTerm> of_panel = TermsOf(panel);
    panel_of_term.insert(panel_of_term.end(), of_panel.size(),
                         static_cast<std::int32_t>(headers.size()));
    DevicePanel header = HeaderOf(panel);
    header.first = static_cast<std::int32_t>(terms.size());
    if (!earlier_first.empty()) header.earlier = earlier_first[headers.size()];
    header.first_null = static_cast<std::int32_t>(null_tokens.size());
    for (const TokenId token : panel.null_tokens) {
      BANYAN_CHECK(token >= 0 && token < logits.vocabulary);
      null_tokens.push_back(token);
    }
    headers.push_back(header);
    terms.insert(terms.end(), of_panel.begin(), of_panel.end());
    call.any_sums |= panel.rule != FusionRule::kMax;
    call.any_row_sums |= panel.NeedsRowSums();
  }
  // Terms | sums, sums of rows (not sent) | panels | panel of each term | tokens | tokens of null;
  // eight-byte values come first.
  const auto count = static_cast<std::int64_t>(terms.size());
  const auto panel_count = static_cast<std::int64_t>(headers.size());
  const std::int64_t sums_at = count * std::int64_t{sizeof(ExpertTerm)};
  const std::int64_t row_sums_at = sums_at + count * std::int64_t{sizeof(ExpertSum)};
  const std::int64_t panels_at =
      row_sums_at + (count + panel_count) * std::int64_t{sizeof(ExpertSum)};
  const std::int64_t owners_at = panels_at + panel_count * std::int64_t{sizeof(DevicePanel)};
  const std::int64_t tokens_at = owners_at + count * 4;
  const std::int64_t nulls_at = tokens_at + static_cast<std::int64_t>(tokens.size_bytes());
  const std::int64_t bytes = nulls_at + static_cast<std::int64_t>(null_tokens.size() * 4);
  if (memory_.bytes() < bytes) {
    memory_ = {};
    memory_ = DeviceMemory(device_, 2 * bytes, "panels of experts");
  }
  std::byte* block = staging_.Reserve(bytes);
  std::memset(block, 0, static_cast<size_t>(bytes));
  std::memcpy(block, terms.data(), terms.size() * sizeof(ExpertTerm));
  std::memcpy(block + panels_at, headers.data(), headers.size() * sizeof(DevicePanel));
  std::memcpy(block + owners_at, panel_of_term.data(), panel_of_term.size() * 4);
  if (!tokens.empty()) std::memcpy(block + tokens_at, tokens.data(), tokens.size_bytes());
  if (!null_tokens.empty()) {
    std::memcpy(block + nulls_at, null_tokens.data(), null_tokens.size() * 4);
  }
  staging_.Send(memory_.As<void>(), bytes);
  auto* base = memory_.As<std::byte>();
  call.logits = logits;
  call.panels_count = static_cast<int>(headers.size());
  call.terms_count = static_cast<int>(terms.size());
  call.terms = reinterpret_cast<ExpertTerm*>(base);
  call.sums = reinterpret_cast<ExpertSum*>(base + sums_at);
  call.row_sums = reinterpret_cast<ExpertSum*>(base + row_sums_at);
  call.panels = reinterpret_cast<const DevicePanel*>(base + panels_at);
  call.panel_of_term = reinterpret_cast<const std::int32_t*>(base + owners_at);
  call.null_tokens = reinterpret_cast<const std::int32_t*>(base + nulls_at);
  tokens_ = reinterpret_cast<const std::int32_t*>(base + tokens_at);
  return call;
}

void PanelFusion::FuseStep(const StepCall& call) {
  BANYAN_CHECK(call.choices.size() == call.panels.size() &&
               call.earlier_first.size() == call.panels.size());
  step_ = Upload(call.logits, call.panels, call.choices, call.earlier_first);
  SettleTerms(device_->stream, step_, call.earlier, call.measured);
  FuseRows(device_->stream, step_, call.out, call.logits.stride);
}

void PanelFusion::FindStepWinners(const ScoreResult* results, std::int32_t* winners) const {
  FindChosenExperts(device_->stream, step_, tokens_, results, winners);
}

}  // namespace banyan::cuda
