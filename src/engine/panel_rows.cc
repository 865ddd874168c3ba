#include "engine/panel_rows.h"

namespace banyan {
namespace {

const RequestPanel& PanelOf(const Stream& stream) {
  return stream.request->panels[static_cast<size_t>(stream.declared().panel)];
}

}  // namespace

void PanelRows::Clear() {
  panels_.clear();
  experts_.clear();
}

std::int32_t PanelRows::Add(const Stream& stream, std::span<const std::int32_t> rows) {
  const RequestPanel& declared = PanelOf(stream);
  const PanelOptions& options = declared.options;
  const Answer& answer = stream.answer;
  const bool fixed = options.beta_rule == BetaRule::kFixed;
  const bool early = stream.tokens_under_way > 0;
  PanelRow panel;
  panel.prior = rows.front();
  panel.rule = options.rule;
  panel.gamma = options.gamma;
  panel.scores = options.scores;
  panel.plausibility = options.plausibility;
  panel.null_tokens = options.null_tokens;
  const bool begun = early || !answer.tokens.empty();
  const bool once = options.abstention_scope == AbstentionScope::kFirstToken;
  if (!begun || !once) panel.abstention = options.abstention;

  // The answer's own segment is the prior, or the first expert, which the request does not name.
  const std::span<const std::int32_t> expert_rows = options.prior ? rows.subspan(1) : rows;
  const size_t unnamed = options.prior ? 0 : 1;
  std::vector<ExpertRow>& experts = experts_.emplace_back();
  for (size_t k = 0; k < expert_rows.size(); ++k) {
    ExpertRow& expert = experts.emplace_back();
    expert.row = expert_rows[k];
    if (k >= unnamed) expert.relevance = declared.experts[k - unnamed].relevance;
    if (fixed) expert.beta = options.beta;
    if (!fixed && !answer.betas.empty()) expert.beta = answer.betas[k];
    if (!answer.abstentions.empty()) expert.abstention = answer.abstentions[k];
  }
  panel.experts = experts;
  panel.earlier_choice = early ? stream.choice : -1;
  if (!fixed && answer.betas.empty()) {
    panel.betas =
        options.beta_rule == BetaRule::kShared ? BetaSource::kMean : BetaSource::kMeasured;
    if (early) panel.betas = BetaSource::kEarlier;
  }
  if (panel.abstention > 0.0 && answer.abstentions.empty()) {
    panel.abstentions = early ? AbstentionSource::kEarlier : AbstentionSource::kMeasured;
  }
  panels_.push_back(panel);
  return static_cast<std::int32_t>(panels_.size()) - 1;
}

void KeepMeasured(Stream& stream, const TokenChoice& choice) {
  if (!stream.answer.betas.empty()) return;
  const RequestPanel& panel = PanelOf(stream);
  stream.answer.betas = panel.options.beta_rule == BetaRule::kFixed
                            ? std::vector<double>(panel.experts.size(), panel.options.beta)
                            : choice.betas;
  stream.answer.abstentions = choice.abstentions;
}

}  // namespace banyan
