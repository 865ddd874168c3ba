// /v1/responses: OpenAI's newer chat API, text only. A request is translated into one of a chat
// completion; the reply has the shape of a response, whole or as events.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "serve/http/http.h"
#include "serve/openai/completion_request.h"
#include "serve/request/engine_call.h"

namespace banyan {

struct ResponseRequest {
  CompletionRequest completion;  // one prompt, one answer
  nlohmann::ordered_json echo;   // fields of the request that a response repeats
};

// Throws ApiError, in the names of this endpoint.
ResponseRequest ReadResponse(ServeContext& context, std::string_view body, std::uint64_t scope);

class Response {
 public:
  Response(ServeContext& context, ResponseRequest request);

  // The reply's body. Throws ApiError.
  std::string Whole(EngineCall& call);
  // As server-sent events; an error after the first event is an event, too.
  void Stream(EngineCall& call, HttpReply& reply);

 private:
  using OrderedJson = nlohmann::ordered_json;

  void Submit(EngineCall& call);
  void Take(Answer answer);
  OrderedJson Body(const char* status) const;
  OrderedJson Message(const char* status) const;
  OrderedJson TextPart() const;
  std::string EndStatus() const;

  ServeContext& context_;
  ResponseRequest request_;
  const std::string id_, message_id_;
  const std::int64_t created_;
  std::string text_;  // of the answer, so far
  Answer answer_;
  bool ended_ = false;
};

}  // namespace banyan
