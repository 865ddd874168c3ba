// A completion on its way: prompts into the engine, answers out as OpenAI's JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "serve/completion_request.h"
#include "serve/engine_call.h"
#include "serve/http.h"

namespace banyan {

class Completion {
 public:
  Completion(ServeContext& context, CompletionRequest request);

  // All answers; the reply's body. Throws ApiError.
  std::string Whole(EngineCall& call);
  // As events; what goes wrong after the first is an event too.
  void Stream(EngineCall& call, HttpReply& reply);

 private:
  using OrderedJson = nlohmann::ordered_json;

  void Submit(EngineCall& call);
  void Take(Answer answer);
  std::string TextOf(const Answer& answer) const;
  // The part of an answer: its text, tokens [begin, end) and how it ended (null: it has not).
  OrderedJson Choice(size_t index, const std::string& text, OrderedJson logprobs,
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

// {"prompt_tokens","completion_tokens","total_tokens","prompt_tokens_details":{"cached_tokens"}}
nlohmann::ordered_json ToJson(const Usage& usage);

// A server-sent event.
std::string EventText(const std::string& data);

}  // namespace banyan
