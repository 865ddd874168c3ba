// Runs a chat or text completion: submits its prompts and formats the answers as OpenAI's JSON.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "banyan/answer.h"
#include "base/json.h"
#include "serve/http/http.h"
#include "serve/openai/completion_request.h"
#include "serve/request/engine_call.h"

namespace banyan {

class Completion {
 public:
  Completion(ServeContext& context, CompletionRequest request);

  // All answers; the reply's body. Throws ApiError.
  std::string Whole(EngineCall& call);
  // As server-sent events; an error after the first event is an event, too.
  void Stream(EngineCall& call, HttpReply& reply);

 private:
  using OrderedJson = nlohmann::ordered_json;

  void Submit(EngineCall& call);
  void Take(Answer answer);
  std::string TextOf(const Answer& answer) const;
  std::string WholeChoice(size_t index);  // as JSON; frees the answer's parts
  // Tokens of an answer with their log-probabilities, as JSON.
  std::string Logprobs(size_t index, std::span<const TokenId> tokens,
                       std::span<const float> logprobs,
                       std::span<const std::vector<ScoredToken>> top);
  // A piece of an answer in a stream, as JSON; `finish` is null until the last piece.
  std::string Choice(size_t index, const std::string& text, const std::string& logprobs,
                     const char* finish) const;
  OrderedJson Head(const char* object) const;
  OrderedJson UsageJson() const;

  ServeContext& context_;
  CompletionRequest request_;
  const std::string id_;
  const std::int64_t created_;
  std::vector<Answer> answers_;        // [prompts × n]
  std::vector<size_t> characters_;     // shown so far of each, for text_offset
  std::vector<std::string> finishes_;  // of each; empty: not yet
};

}  // namespace banyan
