// What a dry run says of prompts that begin alike.
#include <gtest/gtest.h>
#include <numeric>

#include "tasks/job/job_progress.h"

namespace banyan {

namespace {

// `common` tokens that all have, and `own` ones that begin with another each.
PromptSegment Record(int common, int own, TokenId mark) {
  PromptSegment segment;
  segment.tokens.resize(static_cast<size_t>(common + own));
  std::iota(segment.tokens.begin(), segment.tokens.end(), 0);
  segment.tokens[static_cast<size_t>(common)] = 1000 + mark;
  segment.answers.emplace_back();
  return segment;
}

TEST(PromptCounter, BeginningsAreComputedOnce) {
  PromptCounter counter;
  PromptCount count;
  for (int i = 0; i < 10; ++i) count += counter.Count(Record(120, 80, i));
  EXPECT_EQ(count.prompt_tokens, 10 * 200);
  EXPECT_EQ(count.unique_tokens, 120 + 10 * 80);
  EXPECT_EQ(counter.Count(Record(120, 80, 3)).unique_tokens, 0);  // once more
  // A whole cut and a part of the next.
  EXPECT_EQ(counter.Count(Record(150, 80, 50)).unique_tokens, 230 - 120);
  EXPECT_EQ(counter.Count(Record(150, 80, 51)).unique_tokens, 80);
}

TEST(PromptCounter, AdaptersShareNothing) {
  PromptCounter counter;
  PromptSegment record = Record(120, 80, 1);
  EXPECT_EQ(counter.Count(record).unique_tokens, 200);
  record.adapter = "other";
  EXPECT_EQ(counter.Count(record).unique_tokens, 200);
  EXPECT_EQ(counter.Count(record).unique_tokens, 0);
}

// What is remembered has an end: the oldest goes, and the common instruction stays.
TEST(PromptCounter, RemembersABoundedNumberOfTokens) {
  PromptCounter counter;
  PromptSegment root = Record(300, 10, 0);
  root.answers.clear();
  std::int64_t unique = 0;
  for (int i = 0; i < 30; ++i) {
    PromptSegment request = root;
    request.below.push_back(Record(0, 200'000, i));
    unique += counter.Count(request).unique_tokens;
  }
  EXPECT_EQ(unique, 310 + 30 * 200'000);
  PromptSegment request = root;
  request.below.push_back(Record(0, 200'000, 29));
  EXPECT_EQ(counter.Count(request).unique_tokens, 0);
  request.below[0] = Record(0, 200'000, 0);
  EXPECT_EQ(counter.Count(request).unique_tokens, 200'000);
}

}  // namespace

}  // namespace banyan
