// An answer that is written with guesses, on its way (speculative.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "banyan/answer.h"
#include "banyan/constrain.h"
#include "banyan/request.h"

namespace banyan {

struct DraftedStream {
  const AnswerRequest* wanted = nullptr;
  int question = -1;          // the prompt's last segment
  int tail = -1;              // where the answer's keys go; a short question is the same
  std::vector<TokenId> text;  // prompt and answer, for lookup
  std::vector<TokenId> own;   // of the tail, with tokens that have no keys yet
  std::int32_t most = 0;      // tokens of the answer
  std::optional<ConstraintState> constraint;
  std::vector<TokenId> guesses;
  std::vector<std::shared_ptr<const std::vector<std::uint32_t>>> masks;  // [guesses + 1]
  Answer answer;
  bool done = false;

  bool IsStop(TokenId token) const {
    return std::ranges::find(wanted->stop_tokens, token) != wanted->stop_tokens.end();
  }
};

}  // namespace banyan
