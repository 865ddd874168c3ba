// Constrained answers match what they must, and are what they are alone: with little memory, in any
// company, under every strategy.
#include <gtest/gtest.h>

#include <set>

#include "engine/company_fixture.h"

namespace banyan {
namespace {

using testing_support::AnswersAlone;
using testing_support::AnswersByTag;
using testing_support::Ask;
using testing_support::ExpectSameAnswers;
using testing_support::PageBytes;
using testing_support::Prompt;
using testing_support::RunAll;
using testing_support::RunOne;
using testing_support::SharedModel;
using testing_support::SharedTrie;
using testing_support::Tokens;

constexpr TokenId kEnd = 5;  // a control character, which no pattern here has

std::shared_ptr<const Constraint> Regex(const std::string& pattern) {
  ConstraintOptions options;
  options.end_tokens = {kEnd};
  return Constraint::FromRegex(pattern, SharedTrie(), options);
}

AnswerRequest Constrained(std::uint64_t tag, const std::string& pattern, int max_new = 100) {
  AnswerRequest answer = Ask(tag, max_new);
  answer.constraint = Regex(pattern);
  answer.stop_tokens = {kEnd};
  answer.stream = true;  // for its text
  return answer;
}

TEST(EngineConstrained, TheTextMatches) {
  for (const char* pattern :
       {"[a-c]{3,8}", "yes|no", "(ab|abc){1,4}d", "-?[0-9]{1,4}(\\.[0-9]{2})?"}) {
    for (std::uint32_t seed = 0; seed < 5; ++seed) {
      AnswerRequest wanted = Constrained(0, pattern);
      wanted.sampling.temperature = seed == 0 ? 0.0f : 2.0f;
      wanted.sampling.seed = seed;
      const Answer answer = RunOne(Prompt(Tokens(30, seed), {wanted}));
      ASSERT_EQ(answer.finish, FinishReason::kStopToken) << pattern;
      EXPECT_TRUE(wanted.constraint->Matches(answer.text)) << pattern << ": " << answer.text;
    }
  }
}

// Where nothing but the end may come, nobody computes a step for it.
TEST(EngineConstrained, EndsByItself) {
  const Answer answer = RunOne(Prompt(Tokens(30, 1), {Constrained(0, "xyz")}));
  EXPECT_EQ(answer.text, "xyz");
  EXPECT_EQ(answer.tokens.size(), 3u);
}

TEST(EngineConstrained, TheSameInAnyCompany) {
  std::vector<PromptSegment> requests;
  for (std::uint64_t tag = 0; tag < 12; ++tag) {
    AnswerRequest wanted =
        tag % 3 == 2 ? Ask(tag, 40) : Constrained(tag, "([a-d]{2,5}, )*[0-9]+", 60);
    wanted.sampling.temperature = 1.0f;
    wanted.sampling.seed = tag;
    requests.push_back(Prompt(Tokens(20, static_cast<std::uint32_t>(tag % 4)), {wanted}));
  }
  const AnswersByTag expected = AnswersAlone(requests);
  for (const Strategy strategy : {Strategy::kFlat, Strategy::kTree, Strategy::kStacked}) {
    for (const int steps_ahead : {0, 1}) {
      EngineOptions options;
      options.strategy = strategy;
      options.steps_ahead = steps_ahead;
      options.kv_memory = 14 * PageBytes();
      Engine engine(SharedModel(), options);
      ExpectSameAnswers(expected, RunAll(engine, requests));
      EXPECT_EQ(engine.receipt().kv_bytes_held, 0);
    }
  }
}

}  // namespace
}  // namespace banyan
