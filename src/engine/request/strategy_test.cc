#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/request/strategy.h"

namespace banyan {

namespace {

using ::testing::ElementsAre;

// Contexts with so many questions each.
std::shared_ptr<RequestTree> Contexts(RequestId id, const std::vector<int>& questions) {
  PromptSegment root;
  root.tokens = {1};
  for (const int count : questions) {
    PromptSegment& context = root.below.emplace_back();
    context.tokens = {2};
    for (int i = 0; i < count; ++i) {
      context.below.emplace_back().tokens = {3};
      context.below.back().answers.emplace_back();
    }
  }
  std::shared_ptr<RequestTree> tree = MakeRequestTree(root, /*sequential=*/false);
  tree->id = id;
  return tree;
}

std::vector<int> StacksOf(StackNumbers& numbers, RequestTree& request) {
  numbers.Number(request);
  std::vector<int> stacks;
  for (const RequestStream& stream : request.streams) stacks.push_back(stream.stack);
  return stacks;
}

EngineOptions Most(int contexts, int questions) {
  EngineOptions options;
  options.contexts_per_stack = contexts;
  options.questions_per_stack = questions;
  return options;
}

TEST(StackNumbers, AContextIsAStack) {
  StackNumbers numbers(Most(1, 0));
  EXPECT_THAT(StacksOf(numbers, *Contexts(1, {2, 1, 3})), ElementsAre(0, 0, 1, 2, 2, 2));
  EXPECT_THAT(StacksOf(numbers, *Contexts(2, {2})), ElementsAre(3, 3));
}

TEST(StackNumbers, AStackTakesSoManyContextsAlsoOfSeveralRequests) {
  StackNumbers numbers(Most(2, 0));
  EXPECT_THAT(StacksOf(numbers, *Contexts(1, {1, 2, 1})), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(StacksOf(numbers, *Contexts(2, {2, 1})), ElementsAre(1, 1, 2));
}

TEST(StackNumbers, ManyQuestionsOfAContextOpenANewStack) {
  StackNumbers numbers(Most(3, 2));
  EXPECT_THAT(StacksOf(numbers, *Contexts(1, {5, 1})), ElementsAre(0, 0, 1, 1, 2, 2));
}

TEST(StackNumbers, ValuesOfASkeletonStayTogether) {
  StackNumbers numbers(Most(1, 1));
  const std::shared_ptr<RequestTree> tree = Contexts(1, {1, 1, 1, 1});
  tree->skeletons = {{1, 3}};
  tree->streams[1].skeleton = tree->streams[2].skeleton = 0;
  EXPECT_THAT(StacksOf(numbers, *tree), ElementsAre(0, 1, 1, 2));
}

TEST(StackNumbers, APanelIsAStackOfItsOwn) {
  StackNumbers numbers(Most(4, 0));
  const std::shared_ptr<RequestTree> tree = Contexts(1, {1, 1, 1});
  tree->streams[1].panel = 0;
  EXPECT_THAT(StacksOf(numbers, *tree), ElementsAre(0, 1, 2));
}

}  // namespace

}  // namespace banyan
