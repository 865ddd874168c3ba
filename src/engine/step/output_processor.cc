#include "engine/step/output_processor.h"

#include <algorithm>

#include "base/error.h"
#include "base/timing.h"
#include "engine/step/sampling.h"

namespace banyan {

OutputProcessor::OutputProcessor(const Model::Parts& model, const Parts& parts)
    : vocabulary_(model.config.vocab_size),
      kernels_(*model.kernels),
      text_(model.text),
      memory_(parts.memory),
      in_flight_(parts.in_flight),
      admission_(parts.admission),
      events_(parts.events) {}

void OutputProcessor::TakeStep(LaunchedStep& step) {
  const RunningStreams& running = admission_.running();
  std::span<const TokenChoice> choices;
  {
    Timer timer(wait_seconds_);
    try {
      choices = step.choices->Take();
    } catch (...) {
      // The next step, if any, feeds the tokens that are missing now.
      in_flight_.Clear();
      for (const StreamId id : running.order()) running.at(id).tokens_in_flight = 0;
      throw;
    }
  }
  for (size_t i = 0; i < step.readers.size(); ++i) {
    if (!step.readers[i].valid()) {
      dropped_rows_ += step.branches[i];
      continue;
    }
    Stream& stream = running.at(step.readers[i]);
    --stream.tokens_in_flight;
    if (memory_.Written(stream) == 0) KeepPrompt(stream, step, i);
    const std::int32_t second = step.owner_choices.empty() ? -1 : step.owner_choices[i];
    Take(stream, choices[i], second < 0 ? nullptr : &choices[static_cast<size_t>(second)]);
  }
  admission_.ForgetRemoved();
#ifndef NDEBUG
  memory_.CheckInvariants();
  running.CheckInvariants();
#endif
}

// The prompt is computed: keeps its logits and saves it, where wanted.
void OutputProcessor::KeepPrompt(Stream& stream, const LaunchedStep& step, size_t choice) {
  if (stream.wanted().want_logits) {
    stream.answer.prompt_logits.resize(static_cast<size_t>(vocabulary_));
    kernels_.Download(step.logits, step.rows[choice], stream.answer.prompt_logits);
  }
  memory_.SavePrompt(stream);
}

// Experts are counted among those that voted. Inside a unit its owner goes on; where it says
// something else, all experts do.
TokenChoice OutputProcessor::OfTurn(Stream& stream, const TokenChoice& of_all,
                                    const TokenChoice* of_owner) {
  ExpertTurns& turns = *stream.turns;
  const bool ends = of_all.token != kNoToken;
  const bool goes_on = of_owner != nullptr && of_owner->token != kNoToken &&
                       (!ends || turns.GoesOn(of_owner->token));
  TokenChoice choice = goes_on ? *of_owner : of_all;
  if (choice.token == kNoToken) return choice;
  const std::int32_t expert =
      goes_on ? *turns.owner() : turns.voters()[static_cast<size_t>(choice.expert)];
  choice.expert = turns.Take(choice.token, expert);
  return choice;
}

void OutputProcessor::Take(Stream& stream, const TokenChoice& chosen, const TokenChoice* of_owner) {
  TokenChoice of_turn;
  if (stream.turns) of_turn = OfTurn(stream, chosen, of_owner);
  const TokenChoice& choice = stream.turns ? of_turn : chosen;
  const AnswerRequest& wanted = stream.wanted();
  const size_t most = stream.most_tokens();
  if (most == 0) return FinishAnswer(stream, FinishReason::kLength, "");
  if (choice.token == kNoToken) {
    return FinishAnswer(stream, FinishReason::kError,
                        fmt::format("no token can be chosen after {} tokens of the answer: none "
                                    "that is allowed has a finite logit",
                                    stream.answer.tokens.size()));
  }
  stream.answer.tokens.push_back(choice.token);
  stream.answer.logprobs.push_back(choice.logprob);
  if (stream.has_panel()) {
    stream.answer.experts.push_back(choice.expert);
    KeepMeasured(stream, choice);
  }
  if (wanted.top_logprobs > 0) {
    std::vector<ScoredToken>& top = stream.answer.top.emplace_back();
    for (const TokenLogprob& entry : choice.top) top.push_back({entry.token, entry.logprob});
  }
  // The token stands in the tail without KV until the next step feeds it.
  stream.state = Stream::State::kDecode;
  memory_.Append(stream, choice.token);
  const std::vector<TokenId>& stops = wanted.stop_tokens;
  const bool stop_token =
      wanted.forced.empty() && std::find(stops.begin(), stops.end(), choice.token) != stops.end();
  const bool stop_string = AddText(stream, stop_token);
  events_.AddToken(stream);
  if (stream.constraint && !stop_token) {
    // What the mask allowed is text, or an end token of the constraint.
    const bool goes_on = stream.constraint->Advance(choice.token) && !stream.constraint->MustEnd();
    if (!goes_on) return FinishAnswer(stream, FinishReason::kStopToken, "");
  }
  if (stop_token) return FinishAnswer(stream, FinishReason::kStopToken, "");
  if (stop_string) return FinishAnswer(stream, FinishReason::kStopString, "");
  if (stream.answer.tokens.size() >= most || memory_.ContextFull(stream)) {
    FinishAnswer(stream, FinishReason::kLength, "");
  }
}

// Decodes the latest token, where text is wanted. A stop token has no text. True when the text now
// holds a stop string.
bool OutputProcessor::AddText(Stream& stream, bool stop_token) {
  const AnswerRequest& wanted = stream.wanted();
  const std::vector<std::string> no_stops;
  const auto& stops = wanted.forced.empty() ? wanted.stop_strings : no_stops;
  if (!stream.text && text_ != nullptr && (wanted.stream || !stops.empty())) {
    stream.text = std::make_unique<AnswerText>(text_->parts().tokenizer, stops);
  }
  return stream.text != nullptr && !stop_token && stream.text->Push(stream.answer.tokens.back());
}

void OutputProcessor::FinishAnswer(Stream& stream, FinishReason reason, const std::string& why) {
  events_.AddEnd(stream, reason, why);
  const std::vector<bool>& cancelled = stream.request->cancelled;
  while (stream.answer_index < stream.end_answer && !cancelled.empty() &&
         cancelled[static_cast<size_t>(stream.answer_index)]) {
    events_.AddEnd(stream, FinishReason::kCancelled, "");
  }
  const bool room = !memory_.ContextFull(stream);
  if (stream.answer_index < stream.end_answer && room && reason != FinishReason::kError) return;
  events_.AddEnds(stream, FinishReason::kError,
                  reason == FinishReason::kError
                      ? why
                      : "the model's context was full before this answer began");
  admission_.Retire(stream);
}

void OutputProcessor::Report(Receipt& receipt) const {
  receipt.dropped_rows = dropped_rows_;
  receipt.wait_seconds = wait_seconds_;
}

}  // namespace banyan
