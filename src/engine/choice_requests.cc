#include "engine/choice_requests.h"

#include "decode/random.h"

namespace banyan {
namespace {

// Those that its first token is chosen from.
bool WantsLogits(const Stream& stream) { return stream.wanted().want_logits && !stream.decodes(); }

// The logits are gone after the next step; a penalty and a constraint need the token itself; which
// answer comes after a stop, nobody knows before; and nobody may see a row of a value that ended.
bool MustTakeAtOnce(const Stream& stream) {
  const AnswerRequest& wanted = stream.wanted();
  const bool in_turn = stream.end_answer - stream.answer_index > 1;
  return WantsLogits(stream) || wanted.sampling.repetition_penalty != 1.0f || wanted.constraint ||
         in_turn || stream.skeleton;
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

}  // namespace

void ChoiceRequests::Clear() {
  rows_.clear();
  panels_.Clear();
  want_logits_ = take_at_once_ = false;
}

void ChoiceRequests::Add(Stream& stream, std::span<const std::int32_t> rows) {
  Constrain(stream);
  rows_.push_back(RowFor(stream, rows.front()));
  if (stream.has_panel()) rows_.back().panel = panels_.Add(stream, rows);
  want_logits_ = want_logits_ || WantsLogits(stream);
  take_at_once_ = take_at_once_ || MustTakeAtOnce(stream);
}

}  // namespace banyan
