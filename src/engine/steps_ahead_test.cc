// A step launched before the tokens of the last one are known: the answers of the plain loop, bit
// for bit, and rows for nothing only where a stream stopped. Steps that memory was refused for are
// made again in smaller ones, with the same answers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/host_choices.h"
#include "load/model_parts.h"
#include "support/error_message.h"
#include "support/forwarding_kernels.h"
#include "support/temp_directory.h"
#include "support/tiny_model.h"
#include "support/workload.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;
using testing_support::AnswersByTag;
using testing_support::ErrorMessage;
using testing_support::ExpectSameAnswers;
using testing_support::ForwardingKernels;
using testing_support::RunAll;
using testing_support::TempDirectory;
using testing_support::TinyShape;
using testing_support::Workload;
using testing_support::WorkloadLimits;

constexpr Strategy kStrategies[] = {Strategy::kFlat, Strategy::kPaged, Strategy::kStacked,
                                    Strategy::kTree, Strategy::kAuto};

std::shared_ptr<Model> TinyModel(int layers = 1) {
  const TempDirectory directory;
  const TinyShape shape{.family = "qwen3", .layers = layers, .seed = 31};
  LoadOptions options;
  options.model = testing_support::WriteTinyGguf(shape, directory.path() / "tiny.gguf").string();
  options.precision = "f32";
  options.threads = 1;
  return Model::Load(options);
}

std::shared_ptr<Model> UnlimitedModel() {
  static const std::shared_ptr<Model> model = TinyModel();
  return model;
}

struct Outcome {
  AnswersByTag answers;
  Receipt receipt;
};

Outcome RunWith(const Workload& work, EngineOptions options, int steps_ahead,
                int steps_between = -1) {
  options.steps_ahead = steps_ahead;
  Engine engine(UnlimitedModel(), options);
  Outcome run;
  run.answers = RunAll(engine, work.requests(), steps_between);
  run.receipt = engine.receipt();
  return run;
}

TEST(StepsAhead, GiveTheAnswersOfThePlainLoop) {
  std::mt19937 random(1);
  std::int64_t dropped = 0;
  for (int round = 0; round < 12; ++round) {
    const auto seed = static_cast<std::uint32_t>(random());
    const WorkloadLimits limits{.roots = 3,
                                .path_tokens = 300,
                                .root_tokens = 400,
                                .least_answers = 16,
                                .max_new = 12,
                                .around_groups = false,
                                .take_at_once = round % 3 == 0};
    const Workload work(seed, limits);
    for (const Strategy strategy : kStrategies) {
      EngineOptions options;
      options.strategy = strategy;
      options.batch_rows = std::array{7, 40, 512}[random() % 3];
      options.one_by_one = random() % 8 == 0;
      if (random() % 3 == 0) {
        const ModelConfig& config = UnlimitedModel()->parts().config;
        options.kv_memory = (work.LargestStreamPages(kPageTokens) + 3) *
                            UnlimitedModel()->parts().kernels->KvPageBytes(KvShapeOf(config));
      }
      const int steps_between = random() % 2 == 0 ? -1 : 2;
      SCOPED_TRACE(fmt::format("workload {}, {}, {} rows", seed, StrategyName(strategy),
                               options.batch_rows));
      const Outcome plain = RunWith(work, options, 0, steps_between);
      const Outcome ahead = RunWith(work, options, 1, steps_between);
      ExpectSameAnswers(plain.answers, ahead.answers);
      EXPECT_EQ(plain.receipt.dropped_rows, 0);
      EXPECT_EQ(ahead.receipt.decode_rows - ahead.receipt.dropped_rows, plain.receipt.decode_rows);
      EXPECT_EQ(ahead.receipt.generated_tokens, plain.receipt.generated_tokens);
      dropped += ahead.receipt.dropped_rows;
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(dropped, 100);
}

// The length of an answer is no surprise: no row is computed for nothing.
TEST(StepsAhead, DropNothingWhenAnswersEndByLength) {
  EngineOptions options;
  PromptSegment root;
  root.tokens = {1, 2, 3, 4, 5};
  for (std::uint64_t i = 0; i < 30; ++i) {
    PromptSegment& question = root.below.emplace_back();
    question.tokens = {static_cast<TokenId>(i), 7};
    AnswerRequest& answer = question.answers.emplace_back();
    answer.tag = i;
    answer.max_new = static_cast<int>(i % 6);
  }
  options.steps_ahead = 1;
  Engine engine(UnlimitedModel(), options);
  EXPECT_EQ(RunAll(engine, {root}).size(), 30u);
  EXPECT_EQ(engine.receipt().dropped_rows, 0);
}

// Counts steps that were launched while the tokens of another were not taken.
class CountingKernels : public ForwardingKernels {
 public:
  using ForwardingKernels::ForwardingKernels;
  void Choose(const Tensor& logits, std::span<const SamplingRow> requests, const StepPanels& panels,
              std::unique_ptr<PendingChoices>& choices) override {
    ahead += untaken > 0 ? 1 : 0;
    ++untaken;
    const auto* counted = static_cast<const Counted*>(panels.earlier);
    const StepPanels inner{panels.panels, counted ? counted->inner.get() : nullptr};
    if (choices == nullptr) choices = std::make_unique<Counted>(*this);
    ForwardingKernels::Choose(logits, requests, inner, static_cast<Counted&>(*choices).inner);
  }
  void Upload(const Batch& batch, const AttentionPlan& plan, const PendingChoices* earlier,
              std::unique_ptr<StepInputs>& step) override {
    const auto* counted = static_cast<const Counted*>(earlier);
    ForwardingKernels::Upload(batch, plan, counted ? counted->inner.get() : nullptr, step);
  }
  int untaken = 0, ahead = 0;

 private:
  struct Counted : PendingChoices {
    explicit Counted(CountingKernels& kernels) : owner(kernels) {}
    const std::vector<TokenChoice>& Take() override {
      --owner.untaken;
      return inner->Take();
    }
    std::unique_ptr<PendingChoices> inner;
    CountingKernels& owner;
  };
};

PromptSegment ManyAnswers(int streams, int max_new) {
  PromptSegment root;
  root.tokens = {1, 2, 3};
  for (int i = 0; i < streams; ++i) {
    PromptSegment& question = root.below.emplace_back();
    question.tokens = {static_cast<TokenId>(i % 200), 7, 9};
    AnswerRequest& answer = question.answers.emplace_back();
    answer.tag = static_cast<std::uint64_t>(i);
    answer.max_new = max_new;
  }
  return root;
}

TEST(StepsAhead, AreLaunchedBeforeTokensAreTaken) {
  const std::shared_ptr<Model> model = TinyModel();
  auto counting = std::make_unique<CountingKernels>(std::move(model->parts().kernels));
  const CountingKernels& counts = *counting;
  model->parts().kernels = std::move(counting);
  for (const int steps_ahead : {1, 0}) {
    const int before = counts.ahead;
    EngineOptions options;
    options.steps_ahead = steps_ahead;
    Engine engine(model, options);
    EXPECT_EQ(RunAll(engine, {ManyAnswers(8, 20)}).size(), 8u);
    EXPECT_EQ(counts.ahead - before, steps_ahead == 0 ? 0 : 19);
    EXPECT_EQ(counts.untaken, 0);
  }
}

// All that was asked ended with the reason, and the engine answers what is asked afterwards.
void ExpectFailedAndAnew(Engine& engine, const AnswersByTag& failed, const char* reason,
                         const AnswersByTag& expected) {
  EXPECT_EQ(failed.size(), expected.size());
  for (const auto& [tag, answer] : failed) {
    EXPECT_EQ(answer.finish, FinishReason::kError) << tag;
    EXPECT_THAT(answer.error, HasSubstr(reason)) << tag;
  }
  ExpectSameAnswers(expected, RunAll(engine, {ManyAnswers(8, 20)}));
}

// Fails to choose tokens, once.
class FailingKernels : public ForwardingKernels {
 public:
  using ForwardingKernels::ForwardingKernels;
  void Choose(const Tensor& logits, std::span<const SamplingRow> requests, const StepPanels& panels,
              std::unique_ptr<PendingChoices>& choices) override {
    if (calls_until_failure-- != 0) {
      return ForwardingKernels::Choose(logits, requests, panels, choices);
    }
    choices = std::make_unique<Failed>(requests.size());
  }
  int calls_until_failure = -1;

 private:
  struct Failed : HostChoices {
    explicit Failed(size_t count) : HostChoices(std::vector<TokenChoice>(count)) {}
    const std::vector<TokenChoice>& Take() override {
      throw Error(ErrorKind::kInput, "no token can be chosen");
    }
  };
};

TEST(StepsAhead, AStepWithoutTokensEndsAnswersAndNotTheEngine) {
  const std::shared_ptr<Model> model = TinyModel();
  auto failing = std::make_unique<FailingKernels>(std::move(model->parts().kernels));
  FailingKernels& kernels = *failing;
  model->parts().kernels = std::move(failing);
  Engine plain(model, {});
  const AnswersByTag expected = RunAll(plain, {ManyAnswers(8, 20)});
  for (const int steps_ahead : {0, 1}) {
    EngineOptions options;
    options.steps_ahead = steps_ahead;
    Engine engine(model, options);
    kernels.calls_until_failure = 6;
    const AnswersByTag failed = RunAll(engine, {ManyAnswers(8, 20)});
    ExpectFailedAndAnew(engine, failed, "no token", expected);
  }
}

// Refuses memory for steps of more rows than it likes, after some of the forward pass has run. The
// last layer has fewer rows there (those with logits): models need another.
class RefusingKernels : public ForwardingKernels {
 public:
  using ForwardingKernels::ForwardingKernels;
  void Glu(Gate gate, const Tensor& x, Tensor& out) override {
    if (out.rows > most_rows) {
      throw Error(ErrorKind::kLimit, fmt::format("no memory for {} rows", out.rows));
    }
    ForwardingKernels::Glu(gate, x, out);
  }
  std::int64_t most_rows = 1 << 20;
};

TEST(RefusedMemory, MakesStepsSmallerAndLosesNothing) {
  const std::shared_ptr<Model> model = TinyModel(2);
  auto refusing = std::make_unique<RefusingKernels>(std::move(model->parts().kernels));
  RefusingKernels& kernels = *refusing;
  model->parts().kernels = std::move(refusing);
  const Workload work(5, {.roots = 3,
                          .path_tokens = 300,
                          .root_tokens = 400,
                          .least_answers = 16,
                          .max_new = 12,
                          .around_groups = false});
  Engine plain(model, {});
  const AnswersByTag expected = RunAll(plain, work.requests());
  for (const int steps_ahead : {0, 1}) {
    for (const int most_rows : {64, 9, 1}) {
      kernels.most_rows = most_rows;
      EngineOptions options;
      options.steps_ahead = steps_ahead;
      Engine engine(model, options);
      ExpectSameAnswers(expected, RunAll(engine, work.requests()));
      EXPECT_GT(engine.receipt().refused_steps, 0);
      EXPECT_EQ(engine.receipt().failed, 0);
    }
  }
}

TEST(RefusedMemory, ForTheSmallestStepIsAnError) {
  const std::shared_ptr<Model> model = TinyModel(2);
  auto refusing = std::make_unique<RefusingKernels>(std::move(model->parts().kernels));
  RefusingKernels& kernels = *refusing;
  model->parts().kernels = std::move(refusing);
  Engine plain(model, {});
  const AnswersByTag expected = RunAll(plain, {ManyAnswers(8, 20)});
  for (const int steps_ahead : {0, 1}) {
    EngineOptions options;
    options.steps_ahead = steps_ahead;
    Engine engine(model, options);
    engine.Submit(ManyAnswers(8, 20));
    for (int i = 0; i < 5; ++i) engine.Step();
    kernels.most_rows = 0;
    AnswersByTag failed;
    while (engine.Step()) testing_support::Collect(engine, failed);
    testing_support::Collect(engine, failed);
    kernels.most_rows = 1 << 20;  // memory is back
    ExpectFailedAndAnew(engine, failed, "1 rows", expected);
  }
}

}  // namespace
}  // namespace banyan
