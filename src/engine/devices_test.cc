// An engine on several devices: the answers of one, whichever computes them; who computes what; a
// device that fails. The devices are places on the CPU, each with weights, threads and KV of its
// own. random_program_test.cc has programs of several callers on them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "banyan/engine.h"
#include "base/error.h"
#include "load/model_parts.h"
#include "support/byte_model.h"
#include "support/error_message.h"
#include "support/failing_kernels.h"

namespace banyan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::AnswersByTag;
using testing_support::Ask;
using testing_support::ExpectSameAnswers;
using testing_support::FailingKernels;
using testing_support::MakeFailing;
using testing_support::Prompt;
using testing_support::RunAll;
using testing_support::TempDirectory;
using testing_support::Tokens;
using testing_support::Workload;

std::shared_ptr<Model> ModelOn(const std::string& devices) {
  const TempDirectory directory;
  LoadOptions options;
  options.model =
      testing_support::WriteTinyGguf({.vocab = 260, .seed = 21}, directory.path() / "tiny.gguf")
          .string();
  options.device = devices;
  options.precision = "f32";
  return Model::Load(options);
}

const std::shared_ptr<Model>& ModelOn(int devices) {
  static const std::vector<std::shared_ptr<Model>> models = {ModelOn("cpu"), ModelOn("cpu,cpu"),
                                                             ModelOn("cpu,cpu,cpu")};
  return models[static_cast<size_t>(devices - 1)];
}

AnswersByTag RunStarted(Engine& engine, const std::vector<PromptSegment>& requests) {
  engine.Start();
  for (const PromptSegment& request : requests) engine.Submit(request);
  EXPECT_TRUE(engine.WaitUntilIdle(120.0));
  AnswersByTag answers;
  testing_support::Collect(engine, answers);
  return answers;
}

// Documents of 200 tokens with four questions each; tags from 0.
std::vector<PromptSegment> Documents(int count, int max_new = 4) {
  std::vector<PromptSegment> documents;
  std::uint64_t tag = 0;
  for (int i = 0; i < count; ++i) {
    PromptSegment document = Prompt(Tokens(200, static_cast<std::uint32_t>(i) + 7), {});
    for (std::uint32_t question = 0; question < 4; ++question) {
      document.below.push_back(Prompt(Tokens(6, question), {Ask(tag++, max_new)}));
    }
    documents.push_back(std::move(document));
  }
  return documents;
}

TEST(Devices, ModelSaysWhichItHas) {
  EXPECT_THAT(ModelOn(1)->devices(), ElementsAre("cpu"));
  EXPECT_THAT(ModelOn(3)->devices(), ElementsAre("cpu#1", "cpu#2", "cpu#3"));
  EXPECT_EQ(ModelOn(3)->identity(), ModelOn(1)->identity());
  EXPECT_EQ(ModelOn(3)->weight_bytes(), 3 * ModelOn(1)->weight_bytes());
  EXPECT_EQ(ModelOn(2)->parts(0).weights.bytes, ModelOn(1)->weight_bytes());
}

TEST(Devices, AnswersDoNotDependOnHowManyThereAre) {
  for (const Strategy strategy :
       {Strategy::kFlat, Strategy::kPaged, Strategy::kStacked, Strategy::kTree, Strategy::kAuto,
        Strategy::kSequential, Strategy::kNoAttention}) {
    SCOPED_TRACE(StrategyName(strategy));
    EngineOptions options;
    options.strategy = strategy;
    options.contexts_per_stack = 2;
    const bool any_forest = strategy != Strategy::kSequential;
    const Workload work(static_cast<std::uint32_t>(strategy) + 3,
                        {.roots = 8, .least_answers = 60});
    const std::vector<PromptSegment> requests = any_forest ? work.requests() : Documents(12);
    Engine one(ModelOn(1), options);
    const AnswersByTag expected = RunAll(one, requests);
    for (const int devices : {2, 3}) {
      SCOPED_TRACE(devices);
      Engine stepped(ModelOn(devices), options);
      ExpectSameAnswers(expected, RunAll(stepped, requests));
      Engine started(ModelOn(devices), options);
      ExpectSameAnswers(expected, RunStarted(started, requests));
      EXPECT_EQ(started.receipt().kv_bytes_held, 0);
      EXPECT_EQ(started.waiting() + started.running(), 0);
    }
  }
}

TEST(Devices, SharesAddUpToTheReceipt) {
  Engine one(ModelOn(1), {});
  RunAll(one, Documents(30));
  const Receipt of_one = one.receipt();
  ASSERT_EQ(of_one.devices.size(), 1u);
  EXPECT_EQ(of_one.devices[0].requests, 30);
  Engine engine(ModelOn(3), {});
  RunAll(engine, Documents(30));
  const Receipt receipt = engine.receipt();
  EXPECT_EQ(receipt.prompt_tokens, of_one.prompt_tokens);
  EXPECT_EQ(receipt.prefilled_tokens, of_one.prefilled_tokens);  // no document was computed twice
  EXPECT_EQ(receipt.generated_tokens, of_one.generated_tokens);
  EXPECT_EQ(receipt.streams, 120);
  EXPECT_GT(receipt.first_token_median, 0.0);
  ASSERT_EQ(receipt.devices.size(), 3u);
  DeviceShare sum;
  for (const DeviceShare& device : receipt.devices) {
    EXPECT_EQ(device.requests, 10) << device.name;
    EXPECT_GT(device.busy_seconds, 0.0);
    EXPECT_GT(device.kv_bytes, 0);
    sum.prefilled_tokens += device.prefilled_tokens;
    sum.generated_tokens += device.generated_tokens;
    sum.busy_seconds += device.busy_seconds;
    sum.kv_bytes += device.kv_bytes;
  }
  EXPECT_EQ(sum.prefilled_tokens, receipt.prefilled_tokens);
  EXPECT_EQ(sum.generated_tokens, receipt.generated_tokens);
  EXPECT_DOUBLE_EQ(sum.busy_seconds, receipt.decode_step_seconds + receipt.prefill_step_seconds);
  EXPECT_EQ(sum.kv_bytes, receipt.kv_bytes_total);
}

// Rows of a table that name one document each time: its device has it in memory.
TEST(Devices, QuestionsOfOneDocumentAreComputedWhereItIs) {
  std::vector<PromptSegment> requests;
  for (PromptSegment& document : Documents(12)) {
    for (PromptSegment& question : document.below) {
      PromptSegment alone = Prompt(document.tokens, {});
      alone.below.push_back(question);
      requests.push_back(std::move(alone));
    }
  }
  Engine one(ModelOn(1), {});
  const AnswersByTag expected = RunAll(one, requests);
  Engine engine(ModelOn(2), {});
  ExpectSameAnswers(expected, RunAll(engine, requests));
  const Receipt receipt = engine.receipt();
  EXPECT_EQ(receipt.prefilled_tokens, one.receipt().prefilled_tokens);
  for (const DeviceShare& device : receipt.devices) EXPECT_EQ(device.requests, 24) << device.name;
}

// All begin alike, so the first device is to have them; it has no room for all.
TEST(Devices, NoneIsIdleWhileRequestsWait) {
  std::vector<PromptSegment> requests;
  for (std::uint64_t tag = 0; tag < 24; ++tag) {
    PromptSegment root = Prompt(Tokens(1200, 5), {});
    root.below.push_back(Prompt(Tokens(3, static_cast<std::uint32_t>(tag)), {Ask(tag, 20)}));
    requests.push_back(std::move(root));
  }
  EngineOptions options;
  options.max_streams = 2;
  options.batch_rows = 256;
  Engine one(ModelOn(1), options);
  const AnswersByTag expected = RunAll(one, requests);
  Engine engine(ModelOn(2), options);
  ExpectSameAnswers(expected, RunAll(engine, requests));
  const std::vector<DeviceShare> devices = engine.receipt().devices;
  EXPECT_EQ(devices[0].requests + devices[1].requests, 24);
  EXPECT_GT(devices[0].requests, 6);
  EXPECT_GT(devices[1].requests, 6);
  EXPECT_GT(devices[1].requests_of_others, 0);
}

TEST(Devices, APriorityCountsThoughTheDeviceIsFull) {
  EngineOptions options;
  options.max_streams = 1;
  Engine engine(ModelOn(2), options);
  for (std::uint64_t tag = 0; tag < 8; ++tag) {
    engine.Submit(Prompt(Tokens(20, static_cast<std::uint32_t>(tag)), {Ask(tag, 10)}));
  }
  for (int i = 0; i < 3; ++i) engine.Step();
  SubmitOptions first;
  first.priority = 1;
  engine.Submit(Prompt(Tokens(20, 99), {Ask(99, 10)}), first);
  std::vector<std::uint64_t> order;
  while (engine.Step()) {
    for (const Answer& answer : engine.TakeFinished()) order.push_back(answer.tag);
  }
  ASSERT_EQ(order.size(), 9u);
  const auto place = std::ranges::find(order, 99u) - order.begin();
  EXPECT_LE(place, 3);  // after the two that ran, and at most one that ended beside it
}

TEST(Devices, RequestsAreCancelledWhereverTheyAre) {
  EngineOptions options;
  options.max_streams = 2;
  Engine engine(ModelOn(2), options);
  std::vector<RequestId> requests;
  for (const PromptSegment& document : Documents(8, 40)) {
    requests.push_back(engine.Submit(document));
  }
  for (int i = 0; i < 3; ++i) engine.Step();
  EXPECT_EQ(engine.running(), 4);
  for (const RequestId request : requests) engine.Cancel(request);
  EXPECT_EQ(engine.running(), 0);
  EXPECT_EQ(engine.waiting(), 0);
  EXPECT_EQ(engine.receipt().kv_bytes_held, 0);
  const std::vector<Answer> answers = engine.TakeFinished();
  EXPECT_EQ(answers.size(), 32u);
  for (const Answer& answer : answers) EXPECT_EQ(answer.finish, FinishReason::kCancelled);
  while (engine.Step()) {
  }
  EXPECT_TRUE(engine.TakeFinished().empty());
}

TEST(Devices, MemoryThatIsGivenIsDividedAmongPlacesOfOneDevice) {
  EngineOptions options;
  options.kv_memory = 1 << 20;
  Engine one(ModelOn(1), options), three(ModelOn(3), options);
  const std::int64_t whole = one.receipt().kv_bytes_total;
  const std::int64_t divided = three.receipt().kv_bytes_total;
  EXPECT_LE(divided, whole);
  EXPECT_GT(divided, whole * 9 / 10);  // whole pages each
}

TEST(Devices, ExplainTellsOfEach) {
  Engine engine(ModelOn(2), {});
  for (const PromptSegment& document : Documents(6)) engine.Submit(document);
  const std::string text = engine.Explain();
  EXPECT_THAT(text, HasSubstr("device    cpu#1: 3 requests to begin with; weights "));
  EXPECT_THAT(text, HasSubstr("device    cpu#2: 3 requests"));
  EXPECT_THAT(text, HasSubstr("on cpu#2\nstrategy  auto"));
  EXPECT_THAT(text,
              HasSubstr("devices   a whole model on each of 2, documents divided; predicted"));
}

TEST(Devices, OneThatFailsIsNamedAndTheOthersGoOn) {
  const std::shared_ptr<Model> model = ModelOn("cpu,cpu");
  FailingKernels& second = MakeFailing(*model, 1);
  Engine one(ModelOn(1), {});
  const AnswersByTag expected = RunAll(one, Documents(16));
  EngineOptions options;
  options.max_streams = 4;
  Engine engine(model, options);
  EXPECT_FALSE(engine.failure().has_value());
  second.steps = 4;
  AnswersByTag lost, found;
  for (auto& [tag, answer] : RunStarted(engine, Documents(16))) {
    (answer.finish == FinishReason::kError ? lost : found).emplace(tag, std::move(answer));
  }
  const std::optional<DeviceFailure> failure = engine.failure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->device, "cpu#2");
  EXPECT_EQ(failure->why, testing_support::kFailure);
  EXPECT_GT(lost.size(), 0u);
  EXPECT_LE(lost.size(), 8u);  // two documents: what it had begun with
  for (const auto& [tag, answer] : lost) EXPECT_EQ(answer.error, testing_support::kFailure);
  for (const auto& [tag, answer] : found) {
    testing_support::ExpectSameAnswer(expected.at(tag), answer);
  }
  EXPECT_EQ(found.size() + lost.size(), 64u);
}

TEST(Devices, AnEngineWhoseDevicesAllFailedTriesAgain) {
  const std::shared_ptr<Model> model = ModelOn("cpu,cpu");
  FailingKernels& first = MakeFailing(*model, 0);
  FailingKernels& second = MakeFailing(*model, 1);
  Engine engine(model, {});
  first.steps = second.steps = 0;
  for (const auto& [tag, answer] : RunAll(engine, Documents(6))) {
    EXPECT_EQ(answer.finish, FinishReason::kError);
  }
  first.steps.reset();
  second.steps.reset();
  Engine one(ModelOn(1), {});
  ExpectSameAnswers(RunAll(one, Documents(6)), RunAll(engine, Documents(6)));
}

TEST(Devices, UnlikeOnesAndUnknownOnesAreRefused) {
  EXPECT_THAT(testing_support::ErrorMessage(ErrorKind::kUsage, [] { ModelOn("cpu,reference"); }),
              HasSubstr("of one kind"));
  EXPECT_THAT(testing_support::ErrorMessage(ErrorKind::kUsage, [] { ModelOn("cpu,gpu"); }),
              HasSubstr("unknown device 'gpu'"));
}

}  // namespace
}  // namespace banyan
