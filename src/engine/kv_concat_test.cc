#include <gtest/gtest.h>
#include <cmath>

#include "banyan/engine.h"
#include "base/error.h"
#include "engine/kv_concat.h"
#include "support/byte_model.h"

namespace banyan {

namespace {

using testing_support::Ask;
using testing_support::Prompt;
using testing_support::RunOne;
using testing_support::SharedModel;
using testing_support::Tokens;

KvConcatPrompt PromptOf(int system, const std::vector<int>& documents, int question) {
  KvConcatPrompt prompt;
  prompt.system = Tokens(system, 1);
  for (size_t i = 0; i < documents.size(); ++i) {
    prompt.documents.push_back(Tokens(documents[i], static_cast<std::uint32_t>(10 + i)));
  }
  prompt.question = Tokens(question, 2);
  return prompt;
}

TEST(KvConcat, OneDocumentIsItsPrompt) {
  KvConcat joined(SharedModel());
  for (const int question : {1, 64, 65, 100}) {
    const KvConcatPrompt prompt = PromptOf(20, {140}, question);
    const Answer found = joined.Ask(prompt, Ask(7, 30));
    PromptSegment root = Prompt(prompt.system, {});
    root.below.push_back(Prompt(prompt.documents[0], {}));
    root.below[0].below.push_back(Prompt(prompt.question, {Ask(7, 30)}));
    const Answer expected = RunOne(root);
    EXPECT_EQ(found.tokens, expected.tokens) << question;
    EXPECT_EQ(found.logprobs, expected.logprobs) << question;
    EXPECT_EQ(found.finish, expected.finish);
    EXPECT_EQ(found.tag, 7u);
    EXPECT_EQ(found.prompt_tokens, 20 + 140 + question);
    EXPECT_GT(found.first_token_seconds, 0.0);
    EXPECT_LE(found.first_token_seconds, found.seconds);
  }
}

// No document sees another, and all are at the same positions: so their order means nothing but for
// rounding. In one prompt it does.
TEST(KvConcat, TheOrderOfDocumentsMeansNothing) {
  KvConcat joined(SharedModel());
  KvConcatPrompt prompt = PromptOf(20, {90, 140, 40}, 12);
  const Answer first = joined.Ask(prompt, Ask(0, 8));
  std::swap(prompt.documents[0], prompt.documents[2]);
  const Answer second = joined.Ask(prompt, Ask(0, 8));
  ASSERT_EQ(first.tokens, second.tokens);
  for (size_t i = 0; i < first.tokens.size(); ++i) {
    EXPECT_NEAR(first.logprobs[i], second.logprobs[i], 2e-3) << i;
  }
  // Every document counts.
  for (size_t k = 0; k < prompt.documents.size(); ++k) {
    KvConcatPrompt other = prompt;
    other.documents[k] = Tokens(static_cast<int>(other.documents[k].size()), 77);
    EXPECT_GT(std::fabs(joined.Ask(other, Ask(0, 1)).logprobs[0] - second.logprobs[0]), 1e-4) << k;
  }
}

// The paper's two numbers: each changes the answer, and no document comes first.
TEST(KvConcat, TemperatureAndScaleWeighTheDocuments) {
  KvConcatPrompt prompt = PromptOf(20, {90, 140, 40}, 70);
  const Answer plain = KvConcat(SharedModel()).Ask(prompt, Ask(0, 8));
  const Answer ones = KvConcat(SharedModel(), {1.0, 1.0}).Ask(prompt, Ask(0, 8));
  EXPECT_EQ(ones.tokens, plain.tokens);
  EXPECT_EQ(ones.logprobs, plain.logprobs);
  for (const KvConcatOptions& options : {KvConcatOptions{0.4, 1.0}, {1.0, 0.5}, {0.6, 1.4}}) {
    KvConcat joined(SharedModel(), options);
    const Answer found = joined.Ask(prompt, Ask(0, 8));
    EXPECT_GT(std::fabs(found.logprobs[0] - plain.logprobs[0]), 1e-4);
    EXPECT_EQ(joined.Ask(prompt, Ask(0, 8)).logprobs, found.logprobs);
    KvConcatPrompt turned = prompt;
    std::swap(turned.documents[0], turned.documents[2]);
    const Answer other = joined.Ask(turned, Ask(0, 8));
    ASSERT_EQ(other.tokens, found.tokens);
    for (size_t i = 0; i < found.tokens.size(); ++i) {
      EXPECT_NEAR(other.logprobs[i], found.logprobs[i], 2e-3) << i;
    }
  }
}

// Empty parts are no part of it: without documents there is nothing to weigh.
TEST(KvConcat, WithoutDocumentsNumbersChangeNothing) {
  for (const std::vector<int>& documents : {std::vector<int>{}, {0, 0}}) {
    const KvConcatPrompt prompt = PromptOf(20, documents, 12);
    const Answer plain = KvConcat(SharedModel()).Ask(prompt, Ask(0, 6));
    const Answer found = KvConcat(SharedModel(), {0.5, 0.5}).Ask(prompt, Ask(0, 6));
    EXPECT_EQ(found.tokens, plain.tokens);
    EXPECT_EQ(found.logprobs, plain.logprobs);
  }
  KvConcat joined(SharedModel(), {0.5, 0.8});
  KvConcatPrompt prompt = PromptOf(0, {30, 31}, 12);
  const Answer two = joined.Ask(prompt, Ask(0, 6));
  prompt.documents.insert(prompt.documents.begin() + 1, std::vector<TokenId>{});
  EXPECT_EQ(joined.Ask(prompt, Ask(0, 6)).logprobs, two.logprobs);
}

TEST(KvConcat, EndsWhereTheRequestSays) {
  KvConcat joined(SharedModel());
  const KvConcatPrompt prompt = PromptOf(5, {30, 31}, 6);
  const Answer whole = joined.Ask(prompt, Ask(0, 12));
  ASSERT_EQ(whole.tokens.size(), 12u);
  EXPECT_EQ(whole.finish, FinishReason::kLength);
  AnswerRequest wanted = Ask(0, 12);
  wanted.stop_tokens = {whole.tokens[4]};
  const Answer stopped = joined.Ask(prompt, wanted);
  EXPECT_EQ(stopped.finish, FinishReason::kStopToken);
  EXPECT_EQ(stopped.tokens.back(), whole.tokens[4]);
  EXPECT_LE(stopped.tokens.size(), 5u);
  EXPECT_THROW(joined.Ask(PromptOf(5, {30, testing_support::kContext}, 6), wanted), Error);
}

}  // namespace

}  // namespace banyan
