// A launched step's tokens: taken, appended to their streams, tested for stops; streams that are
// done give back what they held.
#include <algorithm>

#include "base/error.h"
#include "engine/core.h"

namespace banyan {

void EngineCore::Take(LaunchedStep& step) {
  std::span<const TokenChoice> choices;
  {
    Timer timer(receipt_.wait_seconds);
    try {
      choices = step.choices->Take();
    } catch (...) {
      ForgetLaunched();
      throw;
    }
  }
  for (size_t i = 0; i < step.readers.size(); ++i) {
    if (!step.readers[i].valid()) {
      receipt_.dropped_rows += step.branches[i];
      continue;
    }
    Stream& stream = at(step.readers[i]);
    --stream.tokens_under_way;
    if (!HasWritten(stream) && stream.wanted().want_logits) {
      stream.answer.prompt_logits.resize(static_cast<size_t>(config_.vocab_size));
      kernels_.Download(step.logits, step.rows[i], stream.answer.prompt_logits);
    }
    if (stored_ && stored_->saves() && !HasWritten(stream)) SavePrompt(stream);
    TakeToken(stream, choices[i]);
  }
  ForgetEnded();
#ifndef NDEBUG
  forest_.CheckInvariants();
  cache_.CheckInvariants();
#endif
}

// What of the stream's prompts is worth keeping, now that all of it is there: of each path, what
// lies above the end of the last segment that says so.
void EngineCore::SavePrompt(const Stream& stream) {
  const std::vector<std::int32_t> leaves = stream.request->LeavesOf(stream.declared());
  for (size_t i = 0; i < leaves.size(); ++i) {
    std::vector<NodeId> nodes = forest_.Path(stream.branches[i].leaf);
    auto next = nodes.begin();
    auto kept = next;
    for (const std::int32_t index : stream.request->PathTo(leaves[i])) {
      const RequestSegment& segment = stream.request->segments[static_cast<size_t>(index)];
      auto left = static_cast<std::int64_t>(segment.tokens.size());
      for (; left > 0; ++next) left -= static_cast<std::int64_t>(forest_.at(*next).tokens.size());
      BANYAN_CHECK(left == 0);  // nodes end where segments do
      if (segment.keep_as.empty()) continue;
      stored_->Save(std::span(kept, next), segment.keep_as);
      kept = next;
    }
  }
}

// As if what was launched had not been: tokens of a step without tokens are of no use, and so is
// the step that feeds them.
void EngineCore::ForgetLaunched() {
  launched_.clear();
  for (const StreamId id : running_) at(id).tokens_under_way = 0;
}

// A token that is being chosen for the stream goes to nobody.
void EngineCore::ForgetUnderWay(Stream& stream) {
  if (stream.tokens_under_way == 0) return;
  launched_.back().readers[static_cast<size_t>(stream.choice)] = StreamId();
  stream.tokens_under_way = 0;
}

void EngineCore::TakeToken(Stream& stream, const TokenChoice& choice) {
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
  ++receipt_.generated_tokens;
  // The token is fed by the next step, if there is one: it stands in the tail without KV. Until
  // there is one, logits come from the prompt.
  stream.state = Stream::State::kDecode;
  for (const Branch& branch : stream.branches) forest_.Append(branch.tail, choice.token);
  const std::vector<TokenId>& stops = wanted.stop_tokens;
  const bool stop_token =
      wanted.forced.empty() && std::find(stops.begin(), stops.end(), choice.token) != stops.end();
  const bool stop_string = AddText(stream, stop_token);
  DeliverToken(stream);
  if (stream.constraint && !stop_token) {
    // What the mask allowed is text, or an end token of the constraint.
    const bool goes_on = stream.constraint->Advance(choice.token) && !stream.constraint->MustEnd();
    if (!goes_on) return FinishAnswer(stream, FinishReason::kStopToken, "");
  }
  if (stop_token) return FinishAnswer(stream, FinishReason::kStopToken, "");
  if (stop_string) return FinishAnswer(stream, FinishReason::kStopString, "");
  if (stream.answer.tokens.size() >= most || EndPosition(stream) >= config_.context_length) {
    FinishAnswer(stream, FinishReason::kLength, "");
  }
}

// They come with the first token.
void EngineCore::KeepMeasured(Stream& stream, const TokenChoice& choice) {
  if (!stream.answer.betas.empty()) return;
  const RequestPanel& panel = stream.request->panels[static_cast<size_t>(stream.declared().panel)];
  stream.answer.betas = panel.options.beta_rule == BetaRule::kFixed
                            ? std::vector<double>(panel.experts.size(), panel.options.beta)
                            : choice.betas;
  stream.answer.abstentions = choice.abstentions;
}

// The latest token's text, for whoever wants it. A stop token has none. True when the text holds a
// stop string now.
bool EngineCore::AddText(Stream& stream, bool stop_token) {
  const AnswerRequest& wanted = stream.wanted();
  const std::vector<std::string> no_stops;
  const auto& stops = wanted.forced.empty() ? wanted.stop_strings : no_stops;
  const std::shared_ptr<const Text>& text = model_->parts().text;
  if (!stream.text && text != nullptr && (wanted.stream || !stops.empty())) {
    stream.text = std::make_unique<AnswerText>(text->parts().tokenizer, stops);
  }
  return stream.text != nullptr && !stop_token && stream.text->Push(stream.answer.tokens.back());
}

// Ends the answer being written. A stream of several goes on with the next.
void EngineCore::FinishAnswer(Stream& stream, FinishReason reason, const std::string& why) {
  DeliverEnd(stream, reason, why);
  const std::vector<bool>& cancelled = stream.request->cancelled;
  while (stream.answer_index < stream.end_answer && !cancelled.empty() &&
         cancelled[static_cast<size_t>(stream.answer_index)]) {
    DeliverEnd(stream, FinishReason::kCancelled, "");
  }
  const bool room = EndPosition(stream) < config_.context_length;
  if (stream.answer_index < stream.end_answer && room && reason != FinishReason::kError) return;
  DeliverEnds(stream, FinishReason::kError,
              reason == FinishReason::kError ? why
                                             : "the model's context was full before this answer "
                                               "began");
  Retire(stream);
}

// REQUIRES: all its ends are delivered.
void EngineCore::Retire(Stream& stream) {
  if (stream.skeleton) return RetireValue(stream);
  ForgetUnderWay(stream);
  LetGo(stream);
  stream.declared().running = StreamId();
  streams_[stream.id.index()].reset();
  no_room_ = false;
}

void EngineCore::ForgetEnded() {
  std::erase_if(running_, [this](StreamId id) {
    if (Alive(id)) return false;
    free_ids_.push_back(id);
    return true;
  });
}

}  // namespace banyan
