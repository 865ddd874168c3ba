// Speculative decoding has the engine's answers; prompt lookup.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/constrain.h"
#include "banyan/engine.h"
#include "base/error.h"
#include "baseline/guesses.h"
#include "baseline/speculative.h"
#include "support/byte_model.h"

namespace banyan {
namespace {

using testing_support::Answers;
using testing_support::AnswersByTag;
using testing_support::Ask;
using testing_support::Prompt;
using testing_support::SharedModel;
using testing_support::Tokens;

// Two documents below an instruction that is shared, with short and long questions.
std::vector<PromptSegment> ForestToAsk(const std::shared_ptr<const Constraint>& constraint = {}) {
  std::vector<PromptSegment> requests;
  std::uint64_t tag = 0;
  for (const int document : {40, 150}) {
    PromptSegment root = Prompt(Tokens(20, 1), {});
    root.below.push_back(Prompt(Tokens(document, static_cast<std::uint32_t>(document)), {}));
    for (const int question : {1, 9, 64, 65}) {
      AnswerRequest wanted = Ask(tag++, 24);
      wanted.constraint = constraint;
      root.below[0].below.push_back(
          Prompt(Tokens(question, static_cast<std::uint32_t>(100 + question)), {wanted}));
    }
    requests.push_back(std::move(root));
  }
  return requests;
}

void ExpectAnswersOfTheEngine(const std::vector<PromptSegment>& requests,
                              const DraftedAnswers& found) {
  const AnswersByTag expected = Answers(requests);
  ASSERT_EQ(found.answers.size(), expected.size());
  for (const Answer& answer : found.answers) {
    const Answer& other = expected.at(answer.tag);
    EXPECT_EQ(answer.tokens, other.tokens) << answer.tag;
    EXPECT_EQ(answer.logprobs, other.logprobs) << answer.tag;
    EXPECT_EQ(answer.finish, other.finish) << answer.tag;
    EXPECT_EQ(answer.prompt_tokens, other.prompt_tokens);
  }
}

TEST(Speculative, GuessesChangeNoBit) {
  const std::vector<PromptSegment> requests = ForestToAsk();
  for (const DraftOptions& options :
       {DraftOptions{0, 0, nullptr}, {4, 3, nullptr}, {7, 1, nullptr}, {4, 0, SharedModel()}}) {
    const DraftedAnswers found = DecodeWithDrafts(SharedModel(), requests, options);
    ExpectAnswersOfTheEngine(requests, found);
    EXPECT_LE(found.report.kept, found.report.guessed);
    EXPECT_EQ(found.report.tokens, 8 * 24);
  }
}

// A draft model that is the model itself is always right: the test of the test above, which would
// also pass if no guess were ever kept.
TEST(Speculative, TheModelItselfIsAlwaysRight) {
  const std::vector<PromptSegment> requests = ForestToAsk();
  const DraftedAnswers found = DecodeWithDrafts(SharedModel(), requests, {5, 0, SharedModel()});
  EXPECT_GT(found.report.guessed, 0);
  EXPECT_EQ(found.report.kept, found.report.guessed);
  // 23 tokens after the first, 6 at a time.
  EXPECT_EQ(found.report.decode_steps, 4);
  EXPECT_EQ(DecodeWithDrafts(SharedModel(), requests, {}).report.decode_steps, 23);
}

TEST(Speculative, StopsWhereTheEngineStops) {
  std::vector<PromptSegment> requests = ForestToAsk();
  const AnswersByTag whole = Answers(requests);
  for (PromptSegment& request : requests) {
    for (PromptSegment& leaf : request.below[0].below) {
      leaf.answers[0].stop_tokens = {whole.at(leaf.answers[0].tag).tokens[10]};
    }
  }
  for (const DraftOptions& options : {DraftOptions{6, 2, nullptr}, {6, 0, SharedModel()}}) {
    ExpectAnswersOfTheEngine(requests, DecodeWithDrafts(SharedModel(), requests, options));
  }
}

// Where a constraint leaves one token, it is guessed and right.
TEST(Speculative, KnowsWhatAConstraintLeaves) {
  const std::shared_ptr<const TokenTrie> trie = MakeTokenTrie(*SharedModel()->text());
  const auto constraint = Constraint::FromRegex("[a-c]{2} known [0-9]{3} text [a-z]+", trie,
                                                {.end_tokens = SharedModel()->end_tokens()});
  const std::vector<PromptSegment> requests = ForestToAsk(constraint);
  const DraftedAnswers plain = DecodeWithDrafts(SharedModel(), requests, {0, 0, nullptr});
  ExpectAnswersOfTheEngine(requests, plain);
  for (const DraftOptions& options :
       {DraftOptions{8, 0, nullptr}, {8, 3, nullptr}, {8, 0, SharedModel()}}) {
    const DraftedAnswers found = DecodeWithDrafts(SharedModel(), requests, options);
    ExpectAnswersOfTheEngine(requests, found);
    EXPECT_GE(found.report.kept, found.report.known);
    EXPECT_GT(found.report.known, 8 * 5);
    EXPECT_LT(found.report.decode_steps, plain.report.decode_steps);
  }
}

TEST(Speculative, RefusesWhatItDoesNotKnow) {
  std::vector<PromptSegment> requests = {Prompt(Tokens(5, 1), {Ask(0, 4)})};
  requests[0].answers[0].sampling.temperature = 1.0f;
  EXPECT_THROW(DecodeWithDrafts(SharedModel(), requests, {}), Error);
  requests = {Prompt(Tokens(testing_support::kContext, 1), {Ask(0, 4)})};
  EXPECT_THROW(DecodeWithDrafts(SharedModel(), requests, {}), Error);
}

using testing::ElementsAre;
using testing::IsEmpty;

TEST(PromptLookup, TakesWhatFollowedTheLongestMatch) {
  const std::vector<TokenId> text = {1, 2, 3, 9, 2, 3, 8, 5, 1, 2, 3};
  EXPECT_THAT(LookUpDraft(text, 3, 2), ElementsAre(9, 2));  // 1 2 3 comes twice
  EXPECT_THAT(LookUpDraft(text, 2, 2), ElementsAre(8, 5));  // of 2 3 the later place
  EXPECT_THAT(LookUpDraft(text, 3, 100), ElementsAre(9, 2, 3, 8, 5, 1, 2, 3));
}

TEST(PromptLookup, HasNothingForANewToken) {
  EXPECT_THAT(LookUpDraft(std::vector<TokenId>{1, 2, 3}, 3, 4), IsEmpty());
  EXPECT_THAT(LookUpDraft(std::vector<TokenId>{7}, 3, 4), IsEmpty());
  EXPECT_THAT(LookUpDraft({}, 3, 4), IsEmpty());
  EXPECT_THAT(LookUpDraft(std::vector<TokenId>{7, 7}, 3, 0), IsEmpty());
}

TEST(PromptLookup, AMatchMayOverlapTheEnd) {
  EXPECT_THAT(LookUpDraft(std::vector<TokenId>{7, 7, 7}, 2, 4), ElementsAre(7));
}

}  // namespace

}  // namespace banyan
