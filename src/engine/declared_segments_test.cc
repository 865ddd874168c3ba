// Bits may depend on declared structure (a segment's cuts begin at its start, a short question is
// one segment with its answer), but every way to run a declaration gives the bits that it has
// alone.
#include <gtest/gtest.h>

#include "support/temp_directory.h"
#include "support/tiny_model.h"
#include "support/workload.h"

namespace banyan {
namespace {

using testing_support::AnswersByTag;
using testing_support::ExpectSameAnswers;
using testing_support::RunAll;

class DeclaredSegments : public ::testing::Test {
 protected:
  void SetUp() override {
    const testing_support::TempDirectory directory;
    const testing_support::TinyShape shape{.family = "llama", .tied = true, .seed = 11};
    LoadOptions options;
    options.model = testing_support::WriteTinyGguf(shape, directory.path() / "tiny.gguf").string();
    options.precision = "f32";
    options.threads = 1;
    model_ = Model::Load(options);
  }

  std::vector<TokenId> RandomTokens(int count) {
    std::vector<TokenId> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(random_() % 200));
    return tokens;
  }

  // Every answer alone, each prompt computed anew; then together under every strategy. Returns
  // what they are alone.
  AnswersByTag ExpectTheBitsOfEachAlone(const std::vector<PromptSegment>& requests) {
    EngineOptions alone;
    alone.strategy = Strategy::kFlat;
    alone.one_by_one = true;
    Engine oracle(model_, alone);
    const AnswersByTag expected = RunAll(oracle, requests);
    for (const Strategy strategy :
         {Strategy::kFlat, Strategy::kPaged, Strategy::kTree, Strategy::kStacked}) {
      for (const int rows : {5, 512}) {
        for (const int steps_between : {-1, 3}) {
          SCOPED_TRACE(testing::Message() << StrategyName(strategy) << ", " << rows << " rows");
          EngineOptions options;
          options.strategy = strategy;
          options.batch_rows = rows;
          Engine engine(model_, options);
          ExpectSameAnswers(expected, RunAll(engine, requests, steps_between));
        }
      }
    }
    return expected;
  }

  std::shared_ptr<Model> model_;
  std::mt19937 random_{6};
};

// Nothing may leak from one declaration to the other when both are in memory.
TEST_F(DeclaredSegments, TheSameTokensDeclaredDifferently) {
  const std::vector<TokenId> tokens = RandomTokens(700);
  std::vector<PromptSegment> requests;
  std::uint64_t tag = 0;
  for (const size_t first : {0, 1, 16, 100, 128, 256, 512, 640, 699, 700}) {
    PromptSegment& root = requests.emplace_back();
    root.tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(first));
    PromptSegment& child = root.below.emplace_back();
    child.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end());
    AnswerRequest& answer = child.answers.emplace_back();
    answer.tag = tag++;
    answer.max_new = 5;
    answer.want_logits = true;
  }
  ExpectTheBitsOfEachAlone(requests);
}

// Questions on both sides of what a tail takes over (Forest::AddTail), whose answers grow into the
// next cut: some chosen, some drawn several times, some forced.
TEST_F(DeclaredSegments, AnswersThatGrowOutOfTheirQuestionsCut) {
  std::vector<PromptSegment> requests(1);
  requests[0].tokens = RandomTokens(40);
  std::uint64_t tag = 0;
  for (const int length : {1, 16, 33, 63, 64, 65, 128}) {
    PromptSegment& question = requests[0].below.emplace_back();
    question.tokens = RandomTokens(length);
    for (int sample = 0; sample < 3; ++sample) {
      AnswerRequest& answer = question.answers.emplace_back();
      answer.tag = tag++;
      answer.max_new = 129 - length + 4 * sample;
      if (sample == 1) answer.forced = RandomTokens(70);
      if (sample == 2) answer.sampling.temperature = 1.0f;
      answer.sample_key = static_cast<std::uint64_t>(sample);
    }
  }
  const AnswersByTag alone = ExpectTheBitsOfEachAlone(requests);
  EXPECT_EQ(alone.at(0).tokens.size(), 128u);
}

}  // namespace
}  // namespace banyan
