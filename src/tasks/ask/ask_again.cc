// Questions that are asked in stages: after the first answers it may turn out that the model has to
// be asked once more, whether it would have answered, or denied, all the same.
#include <cmath>

#include "base/error.h"
#include "constrain/copies_after.h"
#include "tasks/ask/ask_work.h"

namespace banyan {
namespace {

// The log-probability that is left for all other first tokens: none of them has more.
double MostOfOthers(double logprob) { return std::log1p(-std::exp(std::min(logprob, 0.0))); }

}  // namespace

// All answers of a question are there: is there more to ask?
void AskWork::Settle(size_t question) {
  Asked& asked = asked_[question];
  asked.next = Stage::kDone;
  if (asked.problem || asked.cancelled || !record_.questions[question].choices.empty()) return;
  if (asked.stage == Stage::kFirst) {
    for (const Part& part : asked.parts) {
      if (IsUndecided(part)) asked.next = Stage::kNull;
    }
  }
  if (asked.stage == Stage::kNull) {
    for (Part& part : asked.parts) Decide(part);
  }
  const bool reduces = settings_.options.reduce && asked.stage != Stage::kReduce;
  if (asked.next == Stage::kDone && reduces && asked.parts.size() > 1) {
    if (!Candidates(asked).empty()) asked.next = Stage::kReduce;
  }
}

bool AskWork::WantsMore() const {
  bool more = false;
  for (const Asked& asked : asked_) {
    if (asked.missing > 0) return false;
    more |= asked.next != Stage::kDone;
  }
  return more;
}

void AskWork::AskAgain() {
  for (size_t question = 0; question < asked_.size(); ++question) {
    Asked& asked = asked_[question];
    asked.stage = std::exchange(asked.next, Stage::kDone);
    Guarded(question, [&] {
      if (asked.stage == Stage::kReduce) AskReduced(question);
      for (size_t i = 0; asked.stage == Stage::kNull && i < asked.parts.size(); ++i) {
        if (IsUndecided(asked.parts[i])) AskOtherwise(question, i);
      }
    });
    // What could not be asked again stays as it is.
    if (asked.stage != Stage::kDone && asked.missing == 0) Settle(question);
  }
}

// A null counts as if its log-probability were greater by `null_bias`: at the answer's first token,
// against the most likely other one. Greedy answers that are copied have both.
double AskWork::NullBias() const {
  const bool counts = model_.copies && settings_.options.samples == 1 &&
                      settings_.options.sampling.temperature <= 0.0f;
  return counts ? model_.card->null_bias.value_or(0.0) : 0.0;
}

// Whether the bias could turn over an answer with this first token, or a null: the other side has
// at most what this one leaves.
bool AskWork::MayGiveWay(double first_logprob, bool nothing) const {
  const double bias = NullBias(), others = MostOfOthers(first_logprob);
  if (nothing) return bias < 0.0 && first_logprob + bias < others;
  return bias > 0.0 && first_logprob < others + bias;
}

bool AskWork::IsUndecided(const Part& part) const {
  if (!part.copied || part.answers.front().logprobs.empty()) return false;
  const bool nothing = SaysNothingHere(WhatWasSaid(part.answers.front(), part).answer);
  return MayGiveWay(part.answers.front().logprobs.front(), nothing);
}

void AskWork::Hear(std::uint64_t tag, std::span<const float> logprobs) {
  if (logprobs.empty() || !IsPlain(tag)) return;
  const Slot& slot = slots_[tag];
  std::optional<float>& heard = PartAt(slot.question, slot.part).heard;
  if (!heard) heard = logprobs.front();
}

LiveText::Rules AskWork::ShowRules(std::uint64_t tag) const {
  const Part& part = asked_[slots_[tag].question].parts.front();
  LiveText::Rules rules{.null_text = null_text(), .whole_words = part.copied != nullptr};
  rules.sure = !part.copied || NullBias() <= 0.0 ||
               (part.heard && !MayGiveWay(*part.heard, /*nothing=*/false));
  return rules;
}

// Asks for the best answer where there was none, and for the probability of none where there was.
void AskWork::AskOtherwise(size_t question, size_t part_index) {
  Part& part = asked_[question].parts[part_index];
  const bool nothing = SaysNothingHere(WhatWasSaid(part.answers.front(), part).answer);
  const Prompt prompt = Encode(question, part.context);
  if (nothing) {
    ConstraintOptions options;
    options.end_tokens = settings_.model->end_tokens();
    options.mask_bytes = size_t{4} << 20;
    try {
      part.spans = CopiesAfter(settings_.writer->answer_separator(), part.context, {},
                               settings_.trie, options);
    } catch (const Error&) {
      return;  // there is nothing to copy: the null stays
    }
  }
  AnswerRequest request = RequestFor(question, part_index, kOtherAnswer);
  request.sample_key = 0;
  size_t kept = prompt.encoded.tokens.size();
  if (nothing) {
    request.constraint = part.spans;
  } else {
    // As copies begin.
    const std::string null = std::string(settings_.writer->answer_separator()) + null_text();
    const std::vector<TokenId> tokens =
        encoder_->Continue(prompt.parts, prompt.encoded, null, kept);
    request.stop_strings.clear();
    request.forced.assign(tokens.begin() + static_cast<std::ptrdiff_t>(kept), tokens.end());
  }
  AddLeaf(prompt.encoded.tokens, prompt.encoded, kept, std::move(request));
}

void AskWork::Decide(Part& part) {
  if (part.other.logprobs.empty() || part.answers.front().logprobs.empty()) return;
  const double said = part.answers.front().logprobs.front(), other = part.other.logprobs.front();
  const bool nothing = SaysNothingHere(WhatWasSaid(part.answers.front(), part).answer);
  const bool turns = nothing ? other > said + NullBias() : other + NullBias() > said;
  if (!turns) return;
  if (!nothing) part.other.finish = FinishReason::kStopToken;
  part.answers.front() = std::move(part.other);
}

}  // namespace banyan
