#include "serve/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json_row.h"
#include "serve/api_error.h"
#include "serve/completion_logprobs.h"

namespace banyan {
namespace {

constexpr double kWaitSeconds = 1.0;
constexpr double kAliveSeconds = 15.0;  // between signs of life in a stream

// Without what ends it.
ScoredTokens ScoredOf(std::span<const TokenId> tokens, std::span<const float> logprobs,
                      std::span<const std::vector<ScoredToken>> top,
                      const std::vector<TokenId>& stop_tokens) {
  size_t count = tokens.size();
  if (count > 0 && std::ranges::find(stop_tokens, tokens.back()) != stop_tokens.end()) --count;
  return {tokens.first(count), logprobs.first(std::min(count, logprobs.size())),
          top.first(std::min(count, top.size()))};
}

}  // namespace

std::string EventText(const std::string& data) { return "data: " + data + "\n\n"; }

nlohmann::ordered_json ToJson(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Completion::Completion(ServeContext& context, CompletionRequest request)
    : context_(context),
      request_(std::move(request)),
      id_(NewId(request_.chat ? "chatcmpl-" : "cmpl-")),
      created_(SecondsNow()) {
  const size_t count = request_.prompts.size() * static_cast<size_t>(request_.n);
  answers_.resize(count);
  characters_.resize(count, 0);
  finishes_.resize(count);
}

// All prompts are one request: all or none of it is taken.
void Completion::Submit(EngineCall& call) {
  PromptSegment root;
  root.adapter = request_.adapter;
  const std::int64_t window = context_.model->context_length();
  for (size_t p = 0; p < request_.prompts.size(); ++p) {
    PromptSegment& prompt = root.below.emplace_back();
    prompt.tokens = std::move(request_.prompts[p]);
    const std::int64_t room = window - static_cast<std::int64_t>(prompt.tokens.size());
    const std::int64_t most =
        request_.max_tokens > 0 ? request_.max_tokens : context_.options.max_tokens;
    for (int i = 0; i < request_.n; ++i) {
      AnswerRequest answer = request_.answer;
      answer.tag = p * static_cast<size_t>(request_.n) + static_cast<size_t>(i);
      answer.question_key = p;
      answer.sample_key = static_cast<std::uint64_t>(i);
      answer.max_new = static_cast<int>(std::min(room, most));
      prompt.answers.push_back(std::move(answer));
    }
  }
  call.Submit(root);
}

void Completion::Take(Answer answer) {
  if (answer.finish == FinishReason::kError) throw ApiError(500, answer.error);
  if (answer.finish == FinishReason::kCancelled) throw ApiError(503, "the answer was cancelled");
  const size_t index = answer.tag;
  finishes_[index] = answer.finish == FinishReason::kLength ? "length" : "stop";
  answers_[index] = std::move(answer);
}

std::string Completion::TextOf(const Answer& answer) const {
  if (request_.answer.stream || !request_.answer.stop_strings.empty()) return answer.text;
  std::vector<TokenId> known;
  const int vocabulary = context_.text->vocab_size();
  for (const TokenId token : answer.tokens) {
    if (token >= 0 && token < vocabulary) known.push_back(token);
  }
  return context_.text->Decode(known, /*skip_special=*/true);
}

nlohmann::ordered_json Completion::Head(const char* object) const {
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", request_.model}};
}

nlohmann::ordered_json Completion::UsageJson() const {
  Usage usage;
  for (size_t i = 0; i < answers_.size(); ++i) {
    usage.completion_tokens += static_cast<std::int64_t>(answers_[i].tokens.size());
    if (i % static_cast<size_t>(request_.n) != 0) continue;  // a prompt counts once
    usage.prompt_tokens += answers_[i].prompt_tokens;
    usage.cached_tokens += answers_[i].cached_tokens;
  }
  return ToJson(usage);
}

std::string Completion::Whole(EngineCall& call) {
  Submit(call);
  while (call.open() > 0) {
    for (AnswerEvent& event : call.Take(kWaitSeconds)) {
      if (event.ended) Take(std::move(event.answer));
    }
  }
  OrderedJson body = Head(request_.chat ? "chat.completion" : "text_completion");
  OrderedJson choices = OrderedJson::array();
  for (size_t i = 0; i < answers_.size(); ++i) {
    const Answer& answer = answers_[i];
    const ScoredTokens scored =
        ScoredOf(answer.tokens, answer.logprobs, answer.top, request_.answer.stop_tokens);
    OrderedJson logprobs;
    if (request_.logprobs) {
      logprobs = request_.chat ? ChatLogprobs(*context_.text, scored)
                               : TextLogprobs(*context_.text, scored, characters_[i]);
    }
    OrderedJson choice = {{"index", i}};
    if (request_.chat) {
      choice["message"] = {
          {"role", "assistant"}, {"content", TextOf(answer)}, {"refusal", nullptr}};
    } else {
      choice["text"] = TextOf(answer);
    }
    choice["logprobs"] = std::move(logprobs);
    choice["finish_reason"] = finishes_[i];
    choices.push_back(std::move(choice));
  }
  body["choices"] = std::move(choices);
  body["usage"] = UsageJson();
  return DumpJson(body);
}

nlohmann::ordered_json Completion::Choice(size_t index, const std::string& text,
                                          OrderedJson logprobs, const char* finish) const {
  OrderedJson choice = {{"index", index}};
  if (!request_.chat) {
    choice["text"] = text;
  } else {
    choice["delta"] = OrderedJson::object();
    if (finish == nullptr || !text.empty()) choice["delta"]["content"] = text;
  }
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = finish == nullptr ? OrderedJson() : OrderedJson(finish);
  return choice;
}

void Completion::Stream(EngineCall& call, HttpReply& reply) {
  const char* object = request_.chat ? "chat.completion.chunk" : "text_completion";
  const auto chunk = [&](OrderedJson choice) {
    OrderedJson json = Head(object);
    json["choices"] = OrderedJson::array({std::move(choice)});
    if (request_.include_usage) json["usage"] = nullptr;
    return EventText(DumpJson(json));
  };
  Submit(call);  // what it refuses is no event yet
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}};
  for (size_t i = 0; request_.chat && i < answers_.size(); ++i) {
    OrderedJson choice = {{"index", i}};
    choice["delta"] = {{"role", "assistant"}, {"content", ""}};
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = nullptr;
    head.body += chunk(std::move(choice));
  }
  reply.Begin(head);
  double last = call.seconds();
  try {
    while (call.open() > 0) {
      std::string text;
      for (AnswerEvent& event : call.Take(kWaitSeconds)) {
        const size_t index = event.tag;
        const ScoredTokens scored =
            ScoredOf(event.tokens, event.logprobs, event.top, request_.answer.stop_tokens);
        OrderedJson logprobs;
        if (request_.logprobs && !scored.tokens.empty()) {
          logprobs = request_.chat ? ChatLogprobs(*context_.text, scored)
                                   : TextLogprobs(*context_.text, scored, characters_[index]);
        }
        if (!event.text.empty() || !logprobs.is_null()) {
          text += chunk(Choice(index, event.text, std::move(logprobs), nullptr));
        }
        if (!event.ended) continue;
        Take(std::move(event.answer));
        text += chunk(Choice(index, "", nullptr, finishes_[index].c_str()));
      }
      if (text.empty() && call.seconds() - last > kAliveSeconds) text = ": still here\n\n";
      if (text.empty()) continue;
      last = call.seconds();
      if (!reply.Write(text)) return;
    }
    std::string text;
    if (request_.include_usage) {
      OrderedJson json = Head(object);
      json["choices"] = OrderedJson::array();
      json["usage"] = UsageJson();
      text = EventText(DumpJson(json));
    }
    reply.Write(text + EventText("[DONE]"));
  } catch (const std::exception& error) {
    reply.Write(EventText(AsApiError(error).ToJson()) + EventText("[DONE]"));
  }
  reply.End();
}

}  // namespace banyan
