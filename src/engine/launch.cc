// The next step as arrays, and its way to the backend.
#include <algorithm>

#include "base/error.h"
#include "decode/random.h"
#include "engine/core.h"
#include "engine/plan_options.h"

namespace banyan {

void EngineCore::PlanStep() {
  const StepDecision& decision = scheduler_.decision();
  node_rows_.clear();
  for (const PrefillPart& part : decision.prefill) {
    node_rows_.push_back({part.node, part.first_key, part.count, part.logits});
  }
  for (const StreamId id : decision.extend) {
    const Stream& stream = at(id);
    if (stream.skeleton) {
      for (const Branch& branch : stream.branches) node_rows_.push_back(ValueRow(stream, branch));
      continue;
    }
    for (const Branch& branch : stream.branches) {
      const auto tokens = static_cast<int>(forest_.at(branch.tail).tokens.size());
      node_rows_.push_back(
          {branch.tail, tokens - 1 + stream.tokens_under_way, 1, true, ChoiceToken(stream.choice)});
    }
  }
  CollectChains();
  if (options_.strategy == Strategy::kStacked) {
    MarkStacks();
    const auto stack_of = [this](NodeId node) {
      const auto it = stack_of_node_.find(node);
      return it == stack_of_node_.end() ? -1 : it->second;
    };
    built_ = &builder_.Build(node_rows_, stack_of, chains_);
  } else {
    built_ = &builder_.Build(node_rows_, {}, chains_);
  }
  BuildPlan(built_->nodes, built_->batch.positions, OptionsForPlan(), plan_scratch_, plan_);
  BANYAN_CHECK(launched_.size() <= 1);  // so that a choice under way is of the latest step
}

// A node that streams of several stacks have on their paths belongs to none.
void EngineCore::MarkStacks() {
  stack_of_node_.clear();
  for (const StreamId id : running_) {
    const Stream& stream = at(id);
    const int stack = stream.declared().stack;
    for (const Branch& branch : stream.branches) {
      std::vector<NodeId> nodes = forest_.Path(branch.tail);
      nodes.push_back(branch.leaf);
      for (const NodeId node : nodes) {
        const auto [it, added] = stack_of_node_.try_emplace(node, stack);
        if (!added && it->second != stack) it->second = -1;
      }
    }
  }
}

PlanOptions EngineCore::OptionsForPlan() const {
  const AttentionShape shape{config_.heads, config_.kv_heads, config_.head_dim};
  PlanOptions options = PlanOptionsFor(options_.strategy, shape, kernels_);
  if (options_.strategy == Strategy::kTree) options.share_levels = options_.share_levels;
  return options;
}

// Tails that begin with their prompt's last segment get its keys and values before the first row of
// their own.
void EngineCore::FillTails() {
  page_copies_.clear();
  const auto fill = [this](const Branch& branch) {
    const int taken = forest_.TakenOver(branch.leaf);
    if (taken == 0 || cache_.filled(branch.tail) > 0) return;
    cache_.AddCopies(branch.leaf, branch.tail, taken, page_copies_);
  };
  for (const StreamId id : scheduler_.decision().extend) {
    for (const Branch& branch : at(id).branches) fill(branch);
  }
  for (const StreamId id : running_) {  // those that were preempted
    if (Decodes(at(id))) continue;
    for (const Branch& branch : at(id).branches) {
      if (scheduler_.Touches(branch.tail)) fill(branch);
    }
  }
  if (!page_copies_.empty()) kernels_.CopyPages(page_copies_, *memory_.kv);
}

// Nothing of the engine has changed when this throws.
void EngineCore::Launch() {
  const StepDecision& decision = scheduler_.decision();
  LaunchedStep step;
  if (!taken_.empty()) {
    step = std::move(taken_.back());
    taken_.pop_back();
    step.Clear();
  }
  step.decode_only = decision.prefill.empty();
  ForwardOptions forward;
  forward.skip_attention = options_.strategy == Strategy::kNoAttention;
  forward.replay = options_.replay;
  forward.earlier = launched_.empty() ? nullptr : launched_.back().choices.get();
  requested_.clear();
  panels_.clear();
  experts_.clear();
  bool wants_logits = false;
  for (const StreamId id : running_) {
    if (!AddChoice(at(id), step)) continue;
    step.readers.push_back(id);
    wants_logits = wants_logits || WantsLogits(at(id));
  }
  forward.only_choices = memory_.forward->can_only_choose() && panels_.empty() && !wants_logits;
  FillTails();
  step.logits = memory_.forward->Run(built_->batch, plan_, *memory_.kv, forward);
  if (forward.only_choices) {
    memory_.forward->Choose(requested_, step.choices);
  } else {
    kernels_.Choose(step.logits, requested_, {panels_, forward.earlier}, step.choices);
  }

  for (size_t i = 0; i < step.readers.size(); ++i) {
    Stream& stream = at(step.readers[i]);
    ++stream.tokens_under_way;
    stream.choice = static_cast<std::int32_t>(i);
  }
  // In the order of steps, everything later sees these keys.
  for (const StepBuilder::NodeRows& rows : node_rows_) {
    cache_.MarkFilled(rows.node, rows.first_key + rows.count);
  }
  limit_.Add(CountPlan(plan_, built_->batch.positions, plan_scratch_),
             static_cast<int>(built_->batch.logit_rows.size()), step.decode_only);
  ++receipt_.steps;
  receipt_.decode_rows += decision.extend_rows;
  for (size_t i = decision.prefill.size(); i < node_rows_.size(); ++i) {
    if (!node_rows_[i].logits) ++receipt_.recomputed_tokens;  // of a skeleton's value
  }
  for (const PrefillPart& part : decision.prefill) {
    const bool answer = forest_.at(part.node).growing;
    (answer ? receipt_.recomputed_tokens : receipt_.prefilled_tokens) += part.count;
  }
  launched_.push_back(std::move(step));
}

// Asks for the stream's next token, from its tail's row or from the row that ends its prompt, which
// several streams may share; of a panel, from such rows of all branches. False: they are not there.
bool EngineCore::AddChoice(Stream& stream, LaunchedStep& step) {
  std::vector<ExpertRow>* experts = nullptr;
  if (stream.has_panel()) experts = &experts_.emplace_back();
  for (const Branch& branch : stream.branches) {
    const std::int32_t row = builder_.LogitRow(LogitNode(stream, branch));
    if (row < 0) {
      if (experts != nullptr) experts_.pop_back();
      return false;
    }
    if (experts != nullptr) experts->push_back({.row = row});
  }
  const std::int32_t lead = builder_.LogitRow(LogitNode(stream, stream.lead()));
  step.rows.push_back(lead);
  step.branches.push_back(static_cast<int>(stream.branches.size()));
  Constrain(stream);
  requested_.push_back(RequestFor(stream, lead));
  step.take_at_once = step.take_at_once || MustTakeAtOnce(stream);
  if (experts == nullptr) return true;
  if (HasPrior(stream)) experts->erase(experts->begin());
  requested_.back().panel = static_cast<std::int32_t>(panels_.size());
  panels_.push_back(PanelFor(stream, lead));
  return true;
}

// Betas and abstentions are measured with the first token. Until that was taken only the backend
// knows them.
// REQUIRES: experts_.back() are its rows.
PanelRow EngineCore::PanelFor(const Stream& stream, std::int32_t prior) {
  const RequestPanel& declared =
      stream.request->panels[static_cast<size_t>(stream.declared().panel)];
  const PanelOptions& options = declared.options;
  const std::vector<double>& betas = stream.answer.betas;
  const std::vector<double>& abstentions = stream.answer.abstentions;
  const bool fixed = options.beta_rule == BetaRule::kFixed;
  PanelRow panel;
  panel.prior = prior;
  panel.rule = options.rule;
  panel.gamma = options.gamma;
  panel.scores = options.scores;
  panel.plausibility = options.plausibility;
  const bool begun = stream.tokens_under_way > 0 || !stream.answer.tokens.empty();
  const bool once = options.abstention_scope == AbstentionScope::kFirstToken;
  if (!begun || !once) panel.abstention = options.abstention;
  panel.null_tokens = options.null_tokens;
  std::vector<ExpertRow>& experts = experts_.back();
  const size_t own = options.prior ? 0 : 1;  // experts before those that the request names
  for (size_t k = 0; k < experts.size(); ++k) {
    if (k >= own) experts[k].relevance = declared.experts[k - own].relevance;
    if (fixed) experts[k].beta = options.beta;
    if (!fixed && !betas.empty()) experts[k].beta = betas[k];
    if (!abstentions.empty()) experts[k].abstention = abstentions[k];
  }
  panel.experts = experts;
  const bool early = stream.tokens_under_way > 0;
  panel.earlier_choice = early ? stream.choice : -1;
  if (!fixed && betas.empty()) {
    panel.betas =
        options.beta_rule == BetaRule::kShared ? BetaSource::kMean : BetaSource::kMeasured;
    if (early) panel.betas = BetaSource::kEarlier;
  }
  if (panel.abstention > 0.0 && abstentions.empty()) {
    panel.abstentions = early ? AbstentionSource::kEarlier : AbstentionSource::kMeasured;
  }
  return panel;
}

bool EngineCore::HasPrior(const Stream& stream) const {
  return stream.request->panels[static_cast<size_t>(stream.declared().panel)].options.prior;
}

// Whose last row gives the stream's next token.
NodeId EngineCore::LogitNode(const Stream& stream, const Branch& branch) const {
  return Decodes(stream) || HasWritten(stream) ? branch.tail : branch.leaf;
}

// Looks up which tokens may come next.
void EngineCore::Constrain(Stream& stream) {
  const AnswerRequest& wanted = stream.wanted();
  if (!wanted.constraint || !wanted.forced.empty()) return;
  if (!stream.constraint) stream.constraint.emplace(wanted.constraint);
  stream.allowed = stream.constraint->AllowedMask();
}

// Those that its first token is chosen from.
bool EngineCore::WantsLogits(const Stream& stream) const {
  return stream.wanted().want_logits && !Decodes(stream);
}

// The logits are gone after the next step; a penalty and a constraint need the token itself; which
// answer comes after a stop, nobody knows before; and nobody may see a row of a value that ended.
bool EngineCore::MustTakeAtOnce(const Stream& stream) const {
  const AnswerRequest& wanted = stream.wanted();
  const bool in_turn = stream.end_answer - stream.answer_index > 1;
  return WantsLogits(stream) || wanted.sampling.repetition_penalty != 1.0f || wanted.constraint ||
         in_turn || stream.skeleton;
}

SamplingRow EngineCore::RequestFor(const Stream& stream, std::int32_t row) const {
  const AnswerRequest& wanted = stream.wanted();
  const size_t written = stream.answer.tokens.size() + static_cast<size_t>(stream.tokens_under_way);
  SamplingRow request;
  request.row = row;
  request.temperature = wanted.sampling.temperature;
  request.top_k = wanted.sampling.top_k;
  request.top_p = wanted.sampling.top_p;
  request.min_p = wanted.sampling.min_p;
  request.repetition_penalty = wanted.sampling.repetition_penalty;
  request.top_logprobs = wanted.top_logprobs;
  request.history = stream.answer.tokens;
  if (stream.allowed) request.allowed = *stream.allowed;
  if (written < wanted.forced.size()) request.forced = wanted.forced[written];
  if (request.temperature > 0.0f) {
    request.uniform = UniformOf({wanted.sampling.seed, wanted.request_key, wanted.question_key,
                                 wanted.sample_key, written});
  }
  return request;
}

}  // namespace banyan
