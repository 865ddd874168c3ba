#include "tasks/job/prompt_counter.h"

#include <algorithm>
#include <functional>
#include <string>

namespace banyan {
PromptCount& PromptCount::operator+=(const PromptCount& other) {
  answers += other.answers;
  prompt_tokens += other.prompt_tokens;
  unique_tokens += other.unique_tokens;
  longest_prompt = std::max(longest_prompt, other.longest_prompt);
  answer_tokens_limit += other.answer_tokens_limit;
  return *this;
}

PromptCount PromptCounter::Count(const PromptSegment& root) {
  PromptCount count;
  Visit(root, NodeId(), 0, std::hash<std::string>()(root.adapter), count);
  forest_.Forget();
  return count;
}

void PromptCounter::Visit(const PromptSegment& segment, NodeId parent, std::int64_t above,
                          std::uint64_t scope, PromptCount& count) {
  NodeId node = parent;
  if (!segment.tokens.empty()) {
    const SharingForest::Found found = forest_.Add(
        parent,
        {.tokens = segment.tokens, .first_position = segment.first_position, .scope = scope});
    count.unique_tokens += found.computed();
    node = found.node;
  }
  const std::int64_t length = above + static_cast<std::int64_t>(segment.tokens.size());
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
  for (const PromptSegment& below : segment.below) Visit(below, node, length, scope, count);
}

}  // namespace banyan
