// Chat and text completions: log-probabilities, whole replies and streams.
#include "serve/openai/completion.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "banyan/text.h"
#include "base/characters.h"
#include "base/json.h"
#include "load/model_parts.h"
#include "serve/request/api_error.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr double kWaitSeconds = 1.0;
constexpr double kAliveSeconds = 15.0;  // between comments that keep an idle stream open

struct ScoredTokens {
  std::span<const TokenId> tokens;
  std::span<const float> logprobs;                // [tokens]
  std::span<const std::vector<ScoredToken>> top;  // [tokens], or empty
};

// Ids that only pad the vocabulary have no bytes.
std::string BytesOf(const Text& text, TokenId token) {
  if (token < 0 || token >= text.vocab_size()) return {};
  return text.parts().tokenizer->TokenBytes(token);
}

// The decimals that read back as the same float32; OpenAI's word for "never" is -9999.
double Logprob(float value) {
  return std::isfinite(value) ? std::stod(fmt::format("{}", value)) : -9999.0;
}

OrderedJson Entry(const Text& text, TokenId token, float logprob) {
  const std::string bytes = BytesOf(text, token);
  OrderedJson entry;
  entry["token"] = bytes;  // what is no UTF-8 by itself is replaced when it is written
  entry["logprob"] = Logprob(logprob);
  OrderedJson list = OrderedJson::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  entry["bytes"] = std::move(list);
  return entry;
}

// Without the stop token at the end.
ScoredTokens ScoredOf(std::span<const TokenId> tokens, std::span<const float> logprobs,
                      std::span<const std::vector<ScoredToken>> top,
                      const std::vector<TokenId>& stop_tokens) {
  size_t count = tokens.size();
  if (count > 0 && std::ranges::find(stop_tokens, tokens.back()) != stop_tokens.end()) --count;
  return {tokens.first(count), logprobs.first(std::min(count, logprobs.size())),
          top.first(std::min(count, top.size()))};
}

// {"content":[{"token","logprob","bytes","top_logprobs"}]}
OrderedJson ChatLogprobs(const Text& text, const ScoredTokens& scored) {
  OrderedJson content = OrderedJson::array();
  for (size_t i = 0; i < scored.tokens.size(); ++i) {
    OrderedJson entry = Entry(text, scored.tokens[i], scored.logprobs[i]);
    OrderedJson top = OrderedJson::array();
    if (i < scored.top.size()) {
      for (const ScoredToken& other : scored.top[i]) {
        top.push_back(Entry(text, other.token, other.logprob));
      }
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return OrderedJson{{"content", std::move(content)}, {"refusal", nullptr}};
}

// {"tokens","token_logprobs","top_logprobs","text_offset"}; advances `offset` by characters.
OrderedJson TextLogprobs(const Text& text, const ScoredTokens& scored, size_t& offset) {
  OrderedJson tokens = OrderedJson::array(), logprobs = OrderedJson::array(),
              top = OrderedJson::array(), offsets = OrderedJson::array();
  for (size_t i = 0; i < scored.tokens.size(); ++i) {
    const std::string bytes = BytesOf(text, scored.tokens[i]);
    tokens.push_back(bytes);
    logprobs.push_back(Logprob(scored.logprobs[i]));
    offsets.push_back(offset);
    offset += static_cast<size_t>(CountCharacters(bytes));
    if (i >= scored.top.size()) continue;
    OrderedJson others = OrderedJson::object();
    for (const ScoredToken& other : scored.top[i]) {
      others[BytesOf(text, other.token)] = Logprob(other.logprob);
    }
    top.push_back(std::move(others));
  }
  OrderedJson json;
  json["tokens"] = std::move(tokens);
  json["token_logprobs"] = std::move(logprobs);
  json["top_logprobs"] = scored.top.empty() ? OrderedJson() : std::move(top);
  json["text_offset"] = std::move(offsets);
  return json;
}

}  // namespace

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

// All prompts are one request: the engine takes all of it or nothing.
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
  Submit(call);  // what it throws becomes a plain error reply
  HttpResponse head = EventStreamHead();
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
