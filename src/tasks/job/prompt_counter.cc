#include "tasks/job/prompt_counter.h"

#include <algorithm>

namespace banyan {
namespace {

void Visit(const PromptSegment& segment, std::int64_t above, bool is_new, PromptCount& count) {
  const auto own = static_cast<std::int64_t>(segment.tokens.size());
  const std::int64_t length = above + own;
  if (is_new) count.unique_tokens += own;
  for (const AnswerRequest& answer : segment.answers) {
    ++count.answers;
    count.prompt_tokens += length;
    count.longest_prompt = std::max(count.longest_prompt, length);
    count.answer_tokens_limit +=
        answer.forced.empty() ? answer.max_new : static_cast<std::int64_t>(answer.forced.size());
  }
  for (size_t i = 0; i < segment.experts.size(); ++i) {  // that help with an answer elsewhere
    count.prompt_tokens += length;
    count.longest_prompt = std::max(count.longest_prompt, length);
  }
  for (const PromptSegment& below : segment.below) Visit(below, length, true, count);
}

}  // namespace

PromptCount& PromptCount::operator+=(const PromptCount& other) {
  answers += other.answers;
  prompt_tokens += other.prompt_tokens;
  unique_tokens += other.unique_tokens;
  longest_prompt = std::max(longest_prompt, other.longest_prompt);
  answer_tokens_limit += other.answer_tokens_limit;
  return *this;
}

PromptCount PromptCounter::Count(const PromptSegment& root) {
  const bool known =
      !root.tokens.empty() && root.tokens == last_root_ && root.adapter == last_adapter_;
  if (!known) {
    last_root_ = root.tokens;
    last_adapter_ = root.adapter;
  }
  PromptCount count;
  Visit(root, 0, !known, count);
  return count;
}

}  // namespace banyan
