// Requests of different scopes share nothing; a running request can be drawn.
#include <gtest/gtest.h>

#include "banyan/engine.h"
#include "support/byte_model.h"

namespace banyan {
namespace {

constexpr size_t kPromptTokens = 200;

PromptSegment Request(int max_new, int answers = 1) {
  PromptSegment root;
  for (size_t i = 0; i < kPromptTokens; ++i) root.tokens.push_back(static_cast<TokenId>(i % 50));
  for (int i = 0; i < answers; ++i) {
    PromptSegment& question = root.below.emplace_back();
    question.tokens.assign(70, static_cast<TokenId>(i + 1));
    AnswerRequest answer;
    answer.tag = static_cast<std::uint64_t>(i);
    answer.max_new = max_new;
    question.answers.push_back(answer);
  }
  return root;
}

class ScopeTest : public ::testing::Test {
 protected:
  ScopeTest() : engine_(testing_support::SharedModel(), {}) {}

  Answer Ask(std::uint64_t scope) {
    SubmitOptions options;
    options.scope = scope;
    engine_.Submit(Request(3), options);
    std::vector<Answer> answers;
    while (answers.empty()) {
      engine_.Step();
      answers = engine_.TakeFinished();
    }
    return answers.front();
  }

  Engine engine_;
};

TEST_F(ScopeTest, ScopesShareNothing) {
  const Answer first = Ask(7);
  EXPECT_EQ(first.cached_tokens, 0);
  EXPECT_EQ(Ask(8).cached_tokens, 0);
  EXPECT_EQ(Ask(0).cached_tokens, 0);
  const Answer again = Ask(7);
  EXPECT_GE(again.cached_tokens, static_cast<int>(kPromptTokens));
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_EQ(again.logprobs, first.logprobs);
}

TEST_F(ScopeTest, ARunningRequestCanBeDrawn) {
  const RequestId id = engine_.Submit(Request(20, 3));
  const RequestId other = engine_.Submit(Request(20));
  EXPECT_TRUE(engine_.Picture(std::vector<RequestId>{id}).empty());  // it waits
  for (int i = 0; i < 8; ++i) engine_.Step();
  const std::vector<ForestNode> nodes = engine_.Picture(std::vector<RequestId>{id});
  int roots = 0, tails = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ForestNode& node = nodes[i];
    EXPECT_EQ(node.request, id);
    if (node.parent == 0) {
      ++roots;
      EXPECT_EQ(node.readers, 3);
      EXPECT_EQ(node.level, 0);
    }
    if (node.growing) {
      ++tails;
      EXPECT_EQ(node.readers, 1);
    } else {
      EXPECT_EQ(node.computed, node.tokens);
    }
    bool above = node.parent == 0;
    for (size_t k = 0; k < i; ++k) above |= nodes[k].id == node.parent;
    EXPECT_TRUE(above);
  }
  EXPECT_EQ(roots, 1);
  EXPECT_EQ(tails, 3);
  EXPECT_FALSE(engine_.Picture(std::vector<RequestId>{other}).empty());
  while (engine_.Step()) {
  }
  EXPECT_TRUE(engine_.Picture(std::vector<RequestId>{id, other}).empty());
}

}  // namespace
}  // namespace banyan
