// What becomes known of answers, as events.
#include "engine/core.h"

namespace banyan {
namespace {

double Seconds(RequestTree::Clock::time_point from, RequestTree::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

AnswerEvent EventOf(const Stream& stream) {
  AnswerEvent event;
  event.request = stream.request->id;
  event.tag = stream.wanted().tag;
  event.number = stream.request->first_number + static_cast<std::uint64_t>(stream.answer_index);
  return event;
}

}  // namespace

// Of the answer's latest token.
void EngineCore::DeliverToken(Stream& stream) {
  const auto now = RequestTree::Clock::now();
  Answer& answer = stream.answer;
  if (answer.tokens.size() == 1) {
    answer.first_token_seconds = Seconds(stream.request->submitted, now);
    first_token_.Add(answer.first_token_seconds);
  } else {
    next_token_.Add(Seconds(stream.last_token, now));
  }
  stream.last_token = now;
  if (!stream.wanted().stream) return;
  AnswerEvent event = EventOf(stream);
  event.tokens = {answer.tokens.back()};
  event.logprobs = {answer.logprobs.back()};
  if (!answer.top.empty()) event.top = {answer.top.back()};
  if (stream.text) event.text = stream.text->TakeShowable();
  deliveries_.emplace_back(stream.request->queue, std::move(event));
}

void EngineCore::DeliverEnd(Stream& stream, FinishReason reason, const std::string& why) {
  const AnswerRequest& wanted = stream.wanted();
  AnswerEvent event = EventOf(stream);
  event.ended = true;
  Answer& answer = stream.answer;
  answer.tag = wanted.tag;
  answer.finish = reason;
  answer.error = why;
  answer.prompt_tokens = stream.prompt_tokens;
  answer.seconds = Seconds(stream.request->submitted, RequestTree::Clock::now());
  if (stream.text) {
    answer.text = stream.text->Finish();
    if (wanted.stream) event.text = stream.text->TakeShowable();
  }
  receipt_.failed += reason == FinishReason::kError ? 1 : 0;
  receipt_.cancelled += reason == FinishReason::kCancelled ? 1 : 0;
  event.answer = std::move(answer);
  deliveries_.emplace_back(stream.request->queue, std::move(event));
  stream.answer = Answer();
  stream.text.reset();
  stream.constraint.reset();
  stream.allowed.reset();
  ++stream.answer_index;
}

void EngineCore::DeliverEnds(Stream& stream, FinishReason reason, const std::string& why) {
  while (stream.answer_index < stream.end_answer) DeliverEnd(stream, reason, why);
  stream.declared().over = true;
  if (--stream.request->streams_left == 0) requests_.erase(stream.request->id);
}

}  // namespace banyan
