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
#include "base/work_budget.h"
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

// JSON as text: as values of the library 20 alternatives of a token would take 24 KB.
std::string TextJson(const std::string& bytes) {
  return DumpJson(OrderedJson(bytes));  // what is no UTF-8 by itself is replaced
}

std::string LogprobJson(float value) { return DumpJson(OrderedJson(Logprob(value))); }

// {"token","logprob","bytes", without its last brace
void AppendEntry(const Text& text, TokenId token, float logprob, std::string& out) {
  const std::string bytes = BytesOf(text, token);
  out +=
      R"({"token":)" + TextJson(bytes) + R"(,"logprob":)" + LogprobJson(logprob) + R"(,"bytes":[)";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
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

constexpr size_t kTokensBetweenLooks = 64;

// {"content":[{"token","logprob","bytes","top_logprobs"}]}
std::string ChatLogprobs(const Text& text, const ScoredTokens& scored) {
  std::string out = R"({"content":[)";
  for (size_t i = 0; i < scored.tokens.size(); ++i) {
    if (i % kTokensBetweenLooks == 0) CheckBudget();
    if (i > 0) out += ',';
    AppendEntry(text, scored.tokens[i], scored.logprobs[i], out);
    out += R"(,"top_logprobs":[)";
    for (size_t k = 0; i < scored.top.size() && k < scored.top[i].size(); ++k) {
      if (k > 0) out += ',';
      AppendEntry(text, scored.top[i][k].token, scored.top[i][k].logprob, out);
      out += '}';
    }
    out += "]}";
  }
  return out + R"(],"refusal":null})";
}

// {"tokens","token_logprobs","top_logprobs","text_offset"}; advances `offset` by characters.
std::string TextLogprobs(const Text& text, const ScoredTokens& scored, size_t& offset) {
  std::string tokens, logprobs, top, offsets;
  for (size_t i = 0; i < scored.tokens.size(); ++i) {
    if (i % kTokensBetweenLooks == 0) CheckBudget();
    const char* const separator = i > 0 ? "," : "";
    const std::string bytes = BytesOf(text, scored.tokens[i]);
    tokens += separator + TextJson(bytes);
    logprobs += separator + LogprobJson(scored.logprobs[i]);
    offsets += separator + std::to_string(offset);
    offset += static_cast<size_t>(CountCharacters(bytes));
    if (i >= scored.top.size()) continue;
    OrderedJson others = OrderedJson::object();
    for (const ScoredToken& other : scored.top[i]) {
      others[BytesOf(text, other.token)] = Logprob(other.logprob);
    }
    top += separator + DumpJson(others);
  }
  const std::string all_top = scored.top.empty() ? "null" : "[" + top + "]";
  return R"({"tokens":[)" + tokens + R"(],"token_logprobs":[)" + logprobs + R"(],"top_logprobs":)" +
         all_top + R"(,"text_offset":[)" + offsets + "]}";
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
  size_t copied = sizeof(AnswerRequest);
  for (const std::string& stop : request_.answer.stop_strings) copied += sizeof(stop) + stop.size();
  ChargeBudget(answers_.size() * copied);  // each answer has the texts at which it stops
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
  if (request_.stream) answer.top = {};  // was sent
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
  std::string body = DumpJson(Head(request_.chat ? "chat.completion" : "text_completion"));
  body.back() = ',';
  body += R"("choices":[)";
  const std::string usage = DumpJson(UsageJson());
  for (size_t i = 0; i < answers_.size(); ++i) {
    if (i > 0) body += ',';
    const std::string choice = WholeChoice(i);
    if (body.capacity() - body.size() < choice.size()) {
      ChargeBudget(2 * body.capacity() + choice.size());  // it doubles
    }
    body += choice;
  }
  return body + R"(],"usage":)" + usage + "}";
}

std::string Completion::WholeChoice(size_t index) {
  const Answer answer = std::exchange(answers_[index], {});
  std::string choice = fmt::format(R"({{"index":{},)", index);
  if (request_.chat) {
    choice += R"("message":)" +
              DumpJson(OrderedJson{
                  {"role", "assistant"}, {"content", TextOf(answer)}, {"refusal", nullptr}});
  } else {
    choice += R"("text":)" + DumpJson(OrderedJson(TextOf(answer)));
  }
  choice += R"(,"logprobs":)";
  choice +=
      request_.logprobs ? Logprobs(index, answer.tokens, answer.logprobs, answer.top) : "null";
  return choice + R"(,"finish_reason":)" + TextJson(finishes_[index]) + "}";
}

std::string Completion::Logprobs(size_t index, std::span<const TokenId> tokens,
                                 std::span<const float> logprobs,
                                 std::span<const std::vector<ScoredToken>> top) {
  const ScoredTokens scored = ScoredOf(tokens, logprobs, top, request_.answer.stop_tokens);
  return request_.chat ? ChatLogprobs(*context_.text, scored)
                       : TextLogprobs(*context_.text, scored, characters_[index]);
}

std::string Completion::Choice(size_t index, const std::string& text, const std::string& logprobs,
                               const char* finish) const {
  OrderedJson choice = {{"index", index}};
  if (!request_.chat) {
    choice["text"] = text;
  } else {
    choice["delta"] = OrderedJson::object();
    if (finish == nullptr || !text.empty()) choice["delta"]["content"] = text;
  }
  std::string json = DumpJson(choice);
  json.back() = ',';
  return json + R"("logprobs":)" + logprobs + R"(,"finish_reason":)" +
         (finish == nullptr ? "null" : TextJson(finish)) + "}";
}

void Completion::Stream(EngineCall& call, HttpReply& reply) {
  const char* object = request_.chat ? "chat.completion.chunk" : "text_completion";
  std::string before_choice = DumpJson(Head(object));
  before_choice.back() = ',';
  before_choice += R"("choices":[)";
  const char* const after_choice = request_.include_usage ? R"(],"usage":null})" : "]}";
  const auto chunk = [&](const std::string& choice) {
    return EventText(before_choice + choice + after_choice);
  };
  Submit(call);  // what it throws becomes a plain error reply
  HttpResponse head = EventStreamHead();
  for (size_t i = 0; request_.chat && i < answers_.size(); ++i) {
    OrderedJson choice = {{"index", i}};
    choice["delta"] = {{"role", "assistant"}, {"content", ""}};
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = nullptr;
    head.body += chunk(DumpJson(choice));
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
        const bool scores = request_.logprobs && !scored.tokens.empty();
        if (!event.text.empty() || scores) {
          const std::string logprobs =
              scores ? Logprobs(index, event.tokens, event.logprobs, event.top) : "null";
          text += chunk(Choice(index, event.text, logprobs, nullptr));
        }
        if (!event.ended) continue;
        Take(std::move(event.answer));
        text += chunk(Choice(index, "", "null", finishes_[index].c_str()));
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
