// Log-probabilities of tokens in the forms of OpenAI's two endpoints.
#pragma once

#include <span>
#include <vector>

#include "banyan/answer.h"
#include "banyan/text.h"
#include "base/json.h"

namespace banyan {

struct ScoredTokens {
  std::span<const TokenId> tokens;
  std::span<const float> logprobs;                // [tokens]
  std::span<const std::vector<ScoredToken>> top;  // [tokens], or empty
};

// {"content":[{"token","logprob","bytes","top_logprobs"}]}
nlohmann::ordered_json ChatLogprobs(const Text& text, const ScoredTokens& scored);
// {"tokens","token_logprobs","top_logprobs","text_offset"}; `offset` is counted on in characters.
nlohmann::ordered_json TextLogprobs(const Text& text, const ScoredTokens& scored, size_t& offset);

}  // namespace banyan
