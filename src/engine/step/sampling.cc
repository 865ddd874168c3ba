#include "engine/step/sampling.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "load/model_parts.h"

namespace banyan {
namespace {

// Those from which its first token is sampled.
bool WantsLogits(const Stream& stream) { return stream.wanted().want_logits && !stream.decodes(); }

// The next step overwrites the logits; a penalty and a constraint need the token itself; a stop
// decides which answer is next; and no row may see a value that has ended.
bool MustTakeAtOnce(const Stream& stream) {
  const AnswerRequest& wanted = stream.wanted();
  const bool in_turn = stream.end_answer - stream.answer_index > 1;
  return WantsLogits(stream) || wanted.sampling.repetition_penalty != 1.0f || wanted.constraint ||
         in_turn || stream.skeleton || stream.turns;
}

// Looks up which tokens may come next.
void Constrain(Stream& stream) {
  const AnswerRequest& wanted = stream.wanted();
  if (!wanted.constraint || !wanted.forced.empty()) return;
  if (!stream.constraint) stream.constraint.emplace(wanted.constraint);
  stream.allowed = stream.constraint->AllowedMask();
}

SamplingRow RowFor(const Stream& stream, std::int32_t row) {
  const AnswerRequest& wanted = stream.wanted();
  const size_t written = stream.answer.tokens.size() + static_cast<size_t>(stream.tokens_in_flight);
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

// The finaliser of splitmix64: a bijection with full avalanche.
std::uint64_t Scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

void PanelRows::Clear() {
  panels_.clear();
  experts_.clear();
}

std::int32_t PanelRows::Add(const Stream& stream, std::span<const std::int32_t> rows,
                            std::span<const std::int32_t> voters) {
  const RequestPanel& declared = stream.panel();
  const PanelOptions& options = declared.options;
  const Answer& answer = stream.answer;
  const bool fixed = options.beta_rule == BetaRule::kFixed;
  const bool early = stream.tokens_in_flight > 0;
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
    const auto number = static_cast<std::int32_t>(k);
    if (!voters.empty() && !std::ranges::binary_search(voters, number)) continue;
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
  const RequestPanel& panel = stream.panel();
  stream.answer.betas = panel.options.beta_rule == BetaRule::kFixed
                            ? std::vector<double>(panel.experts.size(), panel.options.beta)
                            : choice.betas;
  stream.answer.abstentions = choice.abstentions;
}

void SamplingBatch::Clear() {
  rows_.clear();
  owner_rows_.clear();
  masks_.clear();
  panels_.Clear();
  want_logits_ = take_at_once_ = false;
}

void SamplingBatch::Add(Stream& stream, std::span<const std::int32_t> rows) {
  Constrain(stream);
  rows_.push_back(RowFor(stream, rows.front()));
  if (stream.has_panel()) AddPanel(stream, rows);
  want_logits_ = want_logits_ || WantsLogits(stream);
  take_at_once_ = take_at_once_ || MustTakeAtOnce(stream);
}

void SamplingBatch::AddPanel(Stream& stream, std::span<const std::int32_t> rows) {
  SamplingRow& row = rows_.back();
  const bool words = stream.panel().options.switching == SwitchRule::kWord;
  if (!stream.turns && words && stream.wanted().forced.empty()) {
    if (!words_) words_ = std::make_shared<WordTokens>(text_->parts().tokenizer);
    stream.turns = std::make_unique<ExpertTurns>(stream.panel(), words_);
  }
  if (!stream.turns) {
    row.panel = panels_.Add(stream, rows);
    return;
  }
  row.panel = panels_.Add(stream, rows, stream.turns->voters());
  const std::optional<std::int32_t> owner = stream.turns->owner();
  if (!owner) return;
  SamplingRow& of_owner = owner_rows_.emplace_back(rows_.size() - 1, row).second;
  of_owner.panel = panels_.Add(stream, rows, {&*owner, 1});
  // All experts choose among the tokens that the unit does not go on with.
  const std::span<const std::uint32_t> others = stream.turns->OtherTokens();
  std::vector<std::uint32_t>& mask = masks_.emplace_back(others.begin(), others.end());
  for (size_t w = 0; w < mask.size() && !row.allowed.empty(); ++w) {
    mask[w] &= w < row.allowed.size() ? row.allowed[w] : 0;
  }
  row.allowed = mask;
}

std::vector<std::int32_t> SamplingBatch::AddOwners() {
  if (owner_rows_.empty()) return {};
  std::vector<std::int32_t> places(rows_.size(), -1);
  for (const auto& [stream, row] : owner_rows_) {
    places[stream] = static_cast<std::int32_t>(rows_.size());
    rows_.push_back(row);
  }
  return places;
}

double UniformOf(const DrawKey& key) {
  std::uint64_t state = Scramble(key.seed);
  for (const std::uint64_t part : {key.request, key.question, key.sample, key.position}) {
    state = Scramble(state ^ Scramble(part));
  }
  return static_cast<double>(state >> 11) * 0x1p-53;
}

}  // namespace banyan
