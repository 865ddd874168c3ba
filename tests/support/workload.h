// Random forests of requests, run through an engine in every way that must give the same bits.
#pragma once

#include <gtest/gtest.h>
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "banyan/model.h"
#include "load/model_parts.h"
#include "plan/attention_plan.h"

namespace banyan::testing_support {

// Bytes of one page of a model's KV, over all layers.
inline std::int64_t PageBytes(const Model& model) {
  return model.parts().kernels->KvPageBytes(KvShapeOf(model.parts().config));
}

// A budget of so many pages and, where layers keep states, of slots for a path or two beside them.
inline std::int64_t TightMemory(const Model& model, int pages) {
  const std::int64_t state = StateBytesOf(model.parts().config);
  const std::int64_t all_pages = pages * PageBytes(model);
  return state == 0 ? all_pages : 2 * std::max<std::int64_t>(all_pages, 16 * state);
}

// How many times the usual number of random forests: BANYAN_TEST_ROUNDS, 1 without it.
inline int TestRounds() {
  const char* text = std::getenv("BANYAN_TEST_ROUNDS");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

struct WorkloadLimits {
  int vocab = 200;
  int roots = 3;
  int depth = 5;
  int children = 3;
  int path_tokens = 1600;  // of one stream's prompt
  int root_tokens = 1500;  // of all declared segments below one root
  int least_answers = 12;  // more roots are added until there are so many
  int max_new = 8;
  bool around_groups = true;  // some segments of about 1024 tokens
  bool take_at_once = true;   // some answers want logits or penalties, which keep steps in line
  bool gaps = true;           // some segments begin after a gap
  bool streams = false;       // some answers come token by token
};

// The same requests for the same seed, on every platform. Tags count from 0.
class Workload {
 public:
  Workload(std::uint32_t seed, const WorkloadLimits& limits) : random_(seed), limits_(limits) {
    const int roots = 1 + Below(limits.roots);
    for (int i = 0; i < roots || next_tag_ < static_cast<std::uint64_t>(limits.least_answers);
         ++i) {
      left_ = limits.root_tokens;
      PromptSegment root = Grow(0, 0, 0);
      if (HasAnswers(root)) requests_.push_back(std::move(root));
    }
  }

  const std::vector<PromptSegment>& requests() const { return requests_; }
  size_t answers() const { return static_cast<size_t>(next_tag_); }

  // Pages that the neediest stream holds alone.
  int LargestStreamPages(int page_tokens) const {
    int most = 0;
    for (const PromptSegment& root : requests_) {
      most = std::max(most, Pages(root, 0, 0, page_tokens));
    }
    return most;
  }

 private:
  static bool HasAnswers(const PromptSegment& segment) {
    return !segment.answers.empty() || std::ranges::any_of(segment.below, HasAnswers);
  }

  // `last`: tokens of the last segment above that has some. A tail begins with a short one's
  // (Forest::AddTail).
  static int Pages(const PromptSegment& segment, int above, int last, int page) {
    const auto pages = [page](int tokens) { return (tokens + page - 1) / page; };
    const auto tokens = static_cast<int>(segment.tokens.size());
    const int here = above + pages(tokens), leaf = tokens > 0 ? tokens : last;
    int most = 0;
    for (const AnswerRequest& answer : segment.answers) {
      const int taken = leaf <= kCutKeys / 2 ? leaf : 0;
      most = std::max(most, here + pages(answer.max_new > 1 ? taken + answer.max_new - 1 : 0));
    }
    for (const PromptSegment& child : segment.below) {
      most = std::max(most, Pages(child, here, leaf, page));
    }
    return most;
  }

  int Below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }
  bool Chance(int percent) { return Below(100) < percent; }

  std::vector<TokenId> RandomTokens(int count) {
    std::vector<TokenId> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(Below(limits_.vocab));
    return tokens;
  }

  // Around pages, cuts and groups.
  int RandomLength() {
    static constexpr int kLengths[] = {0,  0,  1,  1,  2,   5,   15,  16,  17,  31,  33,
                                       63, 64, 65, 97, 127, 128, 129, 255, 256, 257, 400};
    static constexpr int kGroupLengths[] = {1023, 1024, 1025, 1152};
    if (limits_.around_groups && Chance(6)) return kGroupLengths[Below(4)];
    return kLengths[Below(static_cast<int>(std::size(kLengths)))];
  }

  // Fresh tokens, a segment seen before, or one that begins like it: sharing to be discovered.
  std::vector<TokenId> Tokens(int room) {
    std::vector<TokenId> tokens = RandomTokens(std::min(RandomLength(), room));
    if (!seen_.empty() && Chance(45)) {
      tokens = seen_[static_cast<size_t>(Below(static_cast<int>(seen_.size())))];
      if (Chance(65) && !tokens.empty()) {
        tokens.resize(static_cast<size_t>(Below(static_cast<int>(tokens.size()) + 1)));
        const std::vector<TokenId> rest = RandomTokens(Below(140));
        tokens.insert(tokens.end(), rest.begin(), rest.end());
      }
    }
    if (static_cast<int>(tokens.size()) > room) tokens.resize(static_cast<size_t>(room));
    if (tokens.size() > 20) seen_.push_back(tokens);
    return tokens;
  }

  // `above`: tokens of the path so far; `position`: where it ends.
  PromptSegment Grow(int depth, int above, int position) {
    PromptSegment segment;
    segment.tokens = Tokens(std::min(limits_.path_tokens - above, left_));
    if (limits_.gaps && Chance(15)) segment.first_position = position += Below(30);
    above += static_cast<int>(segment.tokens.size());
    position += static_cast<int>(segment.tokens.size());
    left_ -= static_cast<int>(segment.tokens.size());
    const bool leaf = depth + 1 >= limits_.depth || left_ <= 0 || Chance(15);
    if (above > 0 && (leaf || Chance(25))) AddAnswers(segment);
    if (leaf) return segment;
    for (int children = 1 + Below(limits_.children); children > 0; --children) {
      segment.below.push_back(Grow(depth + 1, above, position));
      if (Chance(15)) {  // the same question twice
        PromptSegment again = segment.below.back();
        Retag(again);
        segment.below.push_back(std::move(again));
      }
    }
    return segment;
  }

  void Retag(PromptSegment& segment) {
    for (AnswerRequest& answer : segment.answers) answer.tag = next_tag_++;
    for (PromptSegment& child : segment.below) Retag(child);
  }

  void AddAnswers(PromptSegment& segment) {
    AnswerRequest answer;
    answer.max_new = Chance(10) ? 0 : 1 + Below(limits_.max_new);
    if (Chance(50)) answer.stop_tokens = RandomTokens(limits_.vocab / 8);
    if (Chance(25)) answer.top_logprobs = 3;
    answer.want_logits = Chance(25) && limits_.take_at_once;
    answer.stream = limits_.streams && Chance(50);
    answer.request_key = random_();
    answer.question_key = random_();
    int samples = 1;
    if (Chance(40)) {
      samples = 1 + Below(3);
      answer.sampling.temperature = 0.5f + 0.25f * static_cast<float>(Below(4));
      answer.sampling.seed = random_();
      if (Chance(50)) answer.sampling.top_k = 1 + Below(20);
      if (Chance(50)) answer.sampling.top_p = 0.8f;
      if (Chance(30)) answer.sampling.min_p = 0.05f;
      if (Chance(30) && limits_.take_at_once) answer.sampling.repetition_penalty = 1.3f;
    }
    for (int sample = 0; sample < samples; ++sample) {
      answer.tag = next_tag_++;
      answer.sample_key = static_cast<std::uint64_t>(sample);
      segment.answers.push_back(answer);
    }
  }

  std::mt19937 random_;
  WorkloadLimits limits_;
  int left_ = 0;
  std::uint64_t next_tag_ = 0;
  std::vector<std::vector<TokenId>> seen_;
  std::vector<PromptSegment> requests_;
};

using AnswersByTag = std::map<std::uint64_t, Answer>;

inline void Collect(Engine& engine, AnswersByTag& answers) {
  for (Answer& answer : engine.TakeFinished()) {
    const std::uint64_t tag = answer.tag;
    EXPECT_TRUE(answers.emplace(tag, std::move(answer)).second) << "answered twice: " << tag;
  }
}

// steps_between < 0: everything is submitted at once; otherwise so many steps follow each request.
inline AnswersByTag RunAll(Engine& engine, const std::vector<PromptSegment>& requests,
                           int steps_between = -1) {
  AnswersByTag answers;
  for (const PromptSegment& request : requests) {
    engine.Submit(request);
    for (int step = 0; step < steps_between; ++step) {
      engine.Step();
      Collect(engine, answers);
    }
  }
  while (engine.Step()) Collect(engine, answers);
  Collect(engine, answers);
  EXPECT_EQ(engine.running(), 0);
  EXPECT_EQ(engine.waiting(), 0);
  return answers;
}

inline ::testing::AssertionResult SameBits(const std::vector<float>& a,
                                           const std::vector<float>& b) {
  if (a.size() != b.size()) {
    return ::testing::AssertionFailure() << a.size() << " values against " << b.size();
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) {
      return ::testing::AssertionFailure() << "value " << i << ": " << a[i] << " against " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

inline void ExpectSameAnswer(const Answer& expected, const Answer& found) {
  EXPECT_EQ(static_cast<int>(expected.finish), static_cast<int>(found.finish)) << found.error;
  EXPECT_EQ(expected.tokens, found.tokens);
  EXPECT_TRUE(SameBits(expected.logprobs, found.logprobs));
  EXPECT_TRUE(SameBits(expected.prompt_logits, found.prompt_logits));
  EXPECT_EQ(expected.text, found.text);
  EXPECT_EQ(expected.experts, found.experts);
  EXPECT_EQ(expected.betas, found.betas);
  EXPECT_EQ(expected.abstentions, found.abstentions);
  ASSERT_EQ(expected.top.size(), found.top.size());
  for (size_t i = 0; i < expected.top.size(); ++i) {
    ASSERT_EQ(expected.top[i].size(), found.top[i].size());
    for (size_t j = 0; j < expected.top[i].size(); ++j) {
      EXPECT_EQ(expected.top[i][j].token, found.top[i][j].token);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(expected.top[i][j].logprob),
                std::bit_cast<std::uint32_t>(found.top[i][j].logprob));
    }
  }
}

inline void ExpectSameAnswers(const AnswersByTag& expected, const AnswersByTag& found) {
  EXPECT_EQ(expected.size(), found.size());
  const bool failed_before = ::testing::Test::HasFailure();
  for (const auto& [tag, answer] : expected) {
    const auto it = found.find(tag);
    ASSERT_NE(it, found.end()) << "no answer to " << tag;
    ExpectSameAnswer(answer, it->second);
    if (!failed_before && ::testing::Test::HasFailure()) FAIL() << "answer " << tag << " differs";
  }
}

}  // namespace banyan::testing_support
