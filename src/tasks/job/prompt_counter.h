// How much work trees of prompts are.
#pragma once

#include <cstdint>

#include "banyan/request.h"
#include "engine/sharing_forest.h"

namespace banyan {

struct PromptCount {
  std::int64_t answers = 0;
  std::int64_t prompt_tokens = 0;  // as if every answer, and every expert of one, were alone
  std::int64_t unique_tokens = 0;  // to compute, with sharing
  std::int64_t longest_prompt = 0;
  std::int64_t answer_tokens_limit = 0;  // if no answer ended early

  PromptCount& operator+=(const PromptCount& other);
};

class PromptCounter {
 public:
  // What earlier prompts have is not computed again, as far as they are remembered.
  PromptCount Count(const PromptSegment& root);

 private:
  static constexpr std::int64_t kRememberedTokens = 1 << 19;  // about 4 MB, however long a job is

  void Visit(const PromptSegment& segment, NodeId parent, std::int64_t above, std::uint64_t scope,
             PromptCount& count);

  SharingForest forest_{1, kRememberedTokens};
};

}  // namespace banyan
