// What planning decides changes times, never answers; and the receipt tells what it decided and
// predicted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/engine.h"
#include "load/model_parts.h"
#include "support/temp_directory.h"
#include "support/tiny_model.h"
#include "support/workload.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;
using testing_support::AnswersByTag;
using testing_support::ExpectSameAnswers;
using testing_support::RunAll;
using testing_support::Workload;

class PlanningTest : public ::testing::Test {
 protected:
  // A model on a machine where a key costs so much alone, and so much in an item of many rows.
  std::shared_ptr<Model> Load(double few_key, double many_key) {
    LoadOptions load;
    load.model =
        testing_support::WriteTinyGguf({.family = "llama", .seed = 3}, directory_.path() / "m.gguf")
            .string();
    load.threads = 2;
    std::shared_ptr<Model> model = Model::Load(load);
    PlanningCosts costs;
    costs.source = "a test's";
    costs.costs[CostTerm::kFewKey] = few_key;
    costs.costs[CostTerm::kManyKey] = many_key;
    model->parts().costs = costs;
    return model;
  }

  testing_support::TempDirectory directory_;
};

TEST_F(PlanningTest, AnswersAreTheSameWhateverIsDecided) {
  const auto together = Load(1e-6, 1e-9), apart = Load(1e-9, 1e-6), either = Load(2e-8, 1e-7);
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    const Workload work(seed, {.root_tokens = 700});
    AnswersByTag expected;
    for (const std::shared_ptr<Model>& model : {together, apart, either}) {
      Engine engine(model, {});
      const AnswersByTag answers = RunAll(engine, work.requests(), -1);
      const Receipt receipt = engine.receipt();
      EXPECT_GT(receipt.predicted_seconds, 0.0);
      if (model == together) {
        expected = answers;
        EXPECT_EQ(receipt.steps_apart, 0);
        continue;
      }
      ExpectSameAnswers(expected, answers);
      EXPECT_GE(receipt.steps_apart, model == apart ? 1 : 0);
    }
  }
}

TEST_F(PlanningTest, OnlyAutoDecides) {
  for (const Strategy strategy : {Strategy::kTree, Strategy::kPaged, Strategy::kStacked}) {
    EngineOptions options;
    options.strategy = strategy;
    Engine engine(Load(1e-9, 1e-6), options);
    RunAll(engine, Workload(1, {.root_tokens = 300}).requests(), -1);
    EXPECT_EQ(engine.receipt().steps_apart, 0) << StrategyName(strategy);
  }
}

TEST_F(PlanningTest, ExplainTellsBothWaysAndWhereCostsAreFrom) {
  PromptSegment root;
  root.tokens.assign(40, 7);
  for (int i = 0; i < 3; ++i) {
    PromptSegment& question = root.below.emplace_back();
    question.tokens = {100 + i, 7, 9};
    question.answers.emplace_back().max_new = 2;
  }
  Engine engine(Load(1e-6, 1e-9), {});
  engine.Submit(root);
  const std::string text = engine.Explain();
  EXPECT_THAT(text, HasSubstr("costs     a test's\n"));
  EXPECT_THAT(text, HasSubstr("  together ("));
  EXPECT_THAT(text, HasSubstr(" us of work together, "));
  EXPECT_THAT(text, HasSubstr("attention of one layer: "));
  EXPECT_THAT(text, HasSubstr(" if shared nodes are read together, "));
}

}  // namespace
}  // namespace banyan
