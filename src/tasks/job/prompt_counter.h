// How much work trees of prompts are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/request.h"

namespace banyan {

struct PromptCount {
  std::int64_t answers = 0;
  std::int64_t prompt_tokens = 0;  // as if every answer, and every expert of one, were alone
  std::int64_t unique_tokens = 0;  // with sharing
  std::int64_t longest_prompt = 0;
  std::int64_t answer_tokens_limit = 0;  // if no answer ended early

  PromptCount& operator+=(const PromptCount& other);
};

class PromptCounter {
 public:
  // A root that is the last one's again (the instruction of a job) is not computed again.
  PromptCount Count(const PromptSegment& root);

 private:
  std::vector<TokenId> last_root_;
  std::string last_adapter_;
};

}  // namespace banyan
