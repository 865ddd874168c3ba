// How much of a request may be under way, and how much it may ask for.
#include <fmt/format.h>

#include <algorithm>

#include "serve/api_error.h"
#include "serve/task_run.h"

namespace banyan {
namespace {

constexpr size_t kRecordsAhead = 64;
// Of texts that every record has a copy of; more are not made ahead.
constexpr size_t kBytesAhead = 16u << 20;

std::int64_t CountRows(const PromptSegment& segment) {
  auto count = static_cast<std::int64_t>(segment.answers.size() + segment.experts.size());
  for (const PromptSegment& below : segment.below) count += CountRows(below);
  return count;
}

}  // namespace

// What a body does not say beforehand: values of a schema, parts of a document that is split.
void TaskRun::CheckCount(const PromptSegment& prompt) {
  const std::int64_t rows = CountRows(prompt), most = context_.options.max_answers;
  asked_ += rows;
  const auto refuse = [](std::int64_t limit) {
    throw ApiError(400, fmt::format("more than {} answers are asked for (every value of a schema "
                                    "and every part of a long document counts)",
                                    limit));
  };
  // The first prompt of extract stands for all documents, so that a refusal comes before the work.
  const bool first = request_.kind == TaskRequest::Kind::kExtract && asked_ == rows;
  if (first && rows * static_cast<std::int64_t>(counts_.size()) > most) refuse(most);
  // Documents and questions were counted; what is made of them in several rounds may be as much.
  if (asked_ > 2 * most) refuse(2 * most);
}

// Records of rag have copies of the request's documents while they are under way.
size_t TaskRun::MostAhead() const {
  return std::clamp<size_t>(kBytesAhead / (request_.shared_bytes + 1), 1, kRecordsAhead);
}

std::int64_t TaskRun::UniqueTokens() const {
  std::int64_t unique = computed_;
  for (const Counts& counts : counts_) {
    if (!counts.done) unique += counts.unique_tokens;
  }
  return unique;
}

}  // namespace banyan
