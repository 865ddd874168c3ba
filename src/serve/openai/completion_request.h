// What a body of /v1/chat/completions or /v1/completions asks for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "banyan/request.h"
#include "serve/request/context.h"

namespace banyan {

struct CompletionRequest {
  bool chat = true;
  std::string model;
  std::string adapter;                        // that the model's name stands for; empty: none
  std::vector<std::vector<TokenId>> prompts;  // one, or several of /v1/completions
  int n = 1;                                  // answers to each
  AnswerRequest answer;                       // but for tag, sample and max_new
  std::int64_t max_tokens = -1;               // -1: as many as there is room for
  bool stream = false;
  bool include_usage = false;  // with stream: one event more
  bool logprobs = false;
};

// `scope`: what the tenant shares compiled constraints within. Throws ApiError for what is wrong,
// missing or not there.
CompletionRequest ReadChatCompletion(ServeContext& context, std::string_view body,
                                     std::uint64_t scope);
CompletionRequest ReadTextCompletion(ServeContext& context, std::string_view body,
                                     std::uint64_t scope);

}  // namespace banyan
