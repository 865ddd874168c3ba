// A launched step's tokens: taken, appended to their streams, tested for stops; streams that are
// done give back what they held.
#include <algorithm>

#include "base/error.h"
#include "engine/engine_state.h"

namespace banyan {

void Engine::State::Take(LaunchedStep& step) {
  std::vector<TokenChoice> choices;
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
      ++receipt_.dropped_rows;
      continue;
    }
    Stream& stream = at(step.readers[i]);
    --stream.tokens_under_way;
    if (stream.state == Stream::State::kPrefill && stream.wanted.front().want_logits) {
      stream.answer.prompt_logits.resize(static_cast<size_t>(config_.vocab_size));
      kernels_.Download(step.logits, step.rows[i], stream.answer.prompt_logits);
    }
    TakeToken(stream, choices[i]);
  }
  std::erase_if(running_, [this](StreamId id) { return streams_[id.index()] == nullptr; });
  if (options_.one_by_one && running_.empty()) {
    cache_.EvictAll();
  }
#ifndef NDEBUG
  forest_.CheckInvariants();
  cache_.CheckInvariants();
#endif
}

// As if what was launched had not been: tokens of a step without tokens are of no use, and so is
// the step that feeds them.
void Engine::State::ForgetLaunched() {
  launched_.clear();
  for (const StreamId id : running_) at(id).tokens_under_way = 0;
}

void Engine::State::TakeToken(Stream& stream, const TokenChoice& choice) {
  const AnswerRequest& wanted = stream.wanted.front();
  const bool first = stream.answer.tokens.empty();
  if (first) {
    stream.answer.tag = wanted.tag;
    if (!wanted.stop_strings.empty()) {
      stream.stop_strings = std::make_unique<StopStrings>(model_->parts().text->parts().tokenizer,
                                                          wanted.stop_strings);
    }
  }
  const size_t most =
      wanted.forced.empty() ? static_cast<size_t>(wanted.max_new) : wanted.forced.size();
  if (most == 0) return FinishAnswer(stream, FinishReason::kLength);
  stream.answer.tokens.push_back(choice.token);
  stream.answer.logprobs.push_back(choice.logprob);
  if (wanted.top_logprobs > 0) {
    std::vector<ScoredToken>& top = stream.answer.top.emplace_back();
    for (const TokenLogprob& entry : choice.top) top.push_back({entry.token, entry.logprob});
  }
  ++receipt_.generated_tokens;
  // The token is fed by the next step, if there is one: it stands in the tail without KV. Until
  // there is one, logits come from the prompt.
  stream.state = Stream::State::kDecode;
  forest_.Append(stream.tail, choice.token);
  if (wanted.forced.empty()) {
    const std::vector<TokenId>& stops = wanted.stop_tokens;
    if (std::find(stops.begin(), stops.end(), choice.token) != stops.end()) {
      return FinishAnswer(stream, FinishReason::kStopToken);
    }
    if (stream.stop_strings && stream.stop_strings->Push(choice.token)) {
      return FinishAnswer(stream, FinishReason::kStopString);
    }
  }
  const int end_position = forest_.at(stream.tail).end_position();
  if (stream.answer.tokens.size() >= most || end_position >= config_.context_length) {
    FinishAnswer(stream, FinishReason::kLength);
  }
}

void Engine::State::FinishAnswer(Stream& stream, FinishReason reason) {
  stream.answer.tag = stream.wanted.front().tag;
  stream.answer.finish = reason;
  if (stream.stop_strings) stream.answer.text = stream.stop_strings->Finish();
  finished_.push_back(std::move(stream.answer));
  stream.answer = Answer();
  stream.stop_strings.reset();
  stream.wanted.pop_front();
  const bool room = forest_.at(stream.tail).end_position() < config_.context_length;
  if (stream.wanted.empty()) return Retire(stream);
  if (room) return;
  Fail(stream, "the model's context was full before this answer began");
  Retire(stream);
}

// The tail is of no use to anyone (a row under way writes to its page before anyone else can); the
// prompt stays cached until its pages are needed.
void Engine::State::Retire(Stream& stream) {
  if (stream.tokens_under_way > 0) {
    launched_.back().readers[static_cast<size_t>(stream.choice)] = StreamId();
  }
  forest_.Unpin(stream.tail);
  cache_.Drop(stream.tail);
  cache_.Touch(stream.leaf);
  forest_.Unpin(stream.leaf);
  if (options_.strategy == Strategy::kFlat) {  // private: nobody will ask for it again
    NodeId node = stream.leaf;
    while (node.valid() && forest_.Removable(node)) {
      const NodeId parent = forest_.at(node).parent;
      cache_.Drop(node);
      node = parent;
    }
  }
  const StreamId id = stream.id;
  streams_[id.index()].reset();
  free_ids_.push_back(id);
  no_room_ = false;
}

}  // namespace banyan
