// The engine as a service: events, cancelling, back-pressure, shutting down, errors of one answer
// alone. Random programs are in random_program_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "banyan/engine.h"
#include "base/error.h"
#include "kernels/host_choices.h"
#include "load/model_parts.h"
#include "support/byte_model.h"
#include "support/error_message.h"
#include "support/forwarding_kernels.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;
using testing_support::AnswersByTag;
using testing_support::Ask;
using testing_support::ErrorMessage;
using testing_support::ExpectSameAnswer;
using testing_support::Prompt;
using testing_support::RunAll;
using testing_support::RunOne;
using testing_support::SharedModel;
using testing_support::Tokens;

AnswerRequest Streamed(std::uint64_t tag, int max_new) {
  AnswerRequest answer = Ask(tag, max_new);
  answer.stream = true;
  return answer;
}

// A context with `count` questions, tags from 0.
PromptSegment Questions(int count, int max_new, std::uint32_t seed = 1) {
  PromptSegment context = Prompt(Tokens(60, seed), {});
  for (int q = 0; q < count; ++q) {
    context.below.push_back(Prompt(Tokens(5, seed * 100 + static_cast<std::uint32_t>(q)),
                                   {Ask(static_cast<std::uint64_t>(q), max_new)}));
  }
  return context;
}

TEST(EngineEvents, TokensComeOneByOneAndAddUpToTheAnswer) {
  for (const int steps_ahead : {0, 1}) {
    EngineOptions options;
    options.steps_ahead = steps_ahead;
    Engine engine(SharedModel(), options);
    AnswerRequest wanted = Streamed(7, 30);
    wanted.top_logprobs = 2;
    const RequestId id = engine.Submit(Prompt(Tokens(20, 3), {wanted}));
    std::vector<TokenId> tokens;
    std::vector<float> logprobs;
    std::string text;
    size_t events = 0, top = 0;
    bool ended = false, more = true;
    while (more) {
      more = engine.Step();
      for (const AnswerEvent& event : engine.TakeEvents()) {
        ++events;
        EXPECT_FALSE(ended);
        EXPECT_EQ(event.request, id);
        EXPECT_EQ(event.tag, 7u);
        tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
        logprobs.insert(logprobs.end(), event.logprobs.begin(), event.logprobs.end());
        top += event.top.size();
        text += event.text;
        ended = event.ended;
        if (!ended) continue;
        EXPECT_EQ(event.answer.tokens, tokens);
        EXPECT_EQ(event.answer.logprobs, logprobs);
        EXPECT_EQ(event.answer.text, text);
        EXPECT_EQ(event.answer.prompt_tokens, 20);
        EXPECT_GT(event.answer.first_token_seconds, 0.0);
        EXPECT_GE(event.answer.seconds, event.answer.first_token_seconds);
      }
    }
    EXPECT_TRUE(ended);
    EXPECT_EQ(tokens.size(), 30u);
    EXPECT_EQ(top, 30u);
    EXPECT_EQ(text, SharedModel()->text()->Decode(tokens, true));
    EXPECT_GE(events, 29u);  // the last token comes with the end
  }
}

TEST(EngineEvents, WhoTakesSeldomFindsThemTogether) {
  Engine engine(SharedModel(), {});
  engine.Submit(Prompt(Tokens(20, 3), {Streamed(1, 12), Streamed(2, 9)}));
  while (engine.Step()) {
  }
  const std::vector<AnswerEvent> events = engine.TakeEvents();
  ASSERT_EQ(events.size(), 2u);
  for (const AnswerEvent& event : events) {
    EXPECT_TRUE(event.ended);
    EXPECT_EQ(event.tokens, event.answer.tokens);
    EXPECT_EQ(event.text, event.answer.text);
  }
}

TEST(EngineEvents, AStopStringIsNeverShown) {
  const Answer plain = RunOne(Prompt(Tokens(20, 3), {Streamed(0, 30)}));
  // Something that stands in the text, longer than a character.
  const std::string stop = plain.text.substr(plain.text.size() / 2, 3);
  AnswerRequest wanted = Streamed(0, 30);
  wanted.stop_strings = {stop};
  Engine engine(SharedModel(), {});
  engine.Submit(Prompt(Tokens(20, 3), {wanted}));
  std::string shown;
  while (engine.Step()) {
    for (const AnswerEvent& event : engine.TakeEvents()) {
      shown += event.text;
      if (event.ended) {
        EXPECT_EQ(event.answer.finish, FinishReason::kStopString);
      }
    }
  }
  EXPECT_EQ(shown, plain.text.substr(0, plain.text.find(stop)));
}

TEST(EngineEvents, ARequestMayHaveAQueueOfItsOwn) {
  Engine engine(SharedModel(), {});
  SubmitOptions own;
  own.queue = std::make_shared<AnswerQueue>();
  engine.Submit(Prompt(Tokens(9, 1), {Ask(1, 3)}), own);
  engine.Submit(Prompt(Tokens(9, 2), {Ask(2, 3)}));
  while (engine.Step()) {
  }
  EXPECT_EQ(own.queue->ended(), 1);
  ASSERT_EQ(own.queue->Take().size(), 1u);
  EXPECT_EQ(own.queue->ended(), 0);
  ASSERT_EQ(engine.TakeFinished().size(), 1u);
}

TEST(EngineCancel, WaitingAndRunningAnswersEndWithWhatTheyHave) {
  for (const int steps_ahead : {0, 1}) {
    EngineOptions options;
    options.steps_ahead = steps_ahead;
    options.max_streams = 4;
    options.batch_rows = 512;
    Engine alone(SharedModel(), options);
    const AnswersByTag expected = RunAll(alone, {Questions(8, 20)});
    Engine engine(SharedModel(), options);
    const RequestId id = engine.Submit(Questions(8, 20));
    for (int i = 0; i < 6; ++i) engine.Step();
    EXPECT_EQ(engine.running(), 4);
    engine.Cancel(id, 1);  // running
    engine.Cancel(id, 6);  // waiting
    EXPECT_EQ(engine.running(), 3);
    EXPECT_EQ(engine.waiting(), 3);
    engine.Cancel(id, 99);     // nobody
    engine.Cancel(id + 1, 1);  // no such request
    AnswersByTag found;
    testing_support::Collect(engine, found);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found.at(6).finish, FinishReason::kCancelled);
    EXPECT_TRUE(found.at(6).tokens.empty());
    EXPECT_EQ(found.at(1).finish, FinishReason::kCancelled);
    EXPECT_GE(found.at(1).tokens.size(), 4u);
    EXPECT_LT(found.at(1).tokens.size(), 20u);
    while (engine.Step()) testing_support::Collect(engine, found);
    testing_support::Collect(engine, found);
    ASSERT_EQ(found.size(), 8u);
    for (const auto& [tag, answer] : found) {
      if (tag != 1 && tag != 6) ExpectSameAnswer(expected.at(tag), answer);
    }
    EXPECT_EQ(engine.receipt().cancelled, 2);
    EXPECT_EQ(engine.receipt().kv_bytes_held, 0);
  }
}

TEST(EngineCancel, AWholeRequestGivesItsMemoryBackAtOnce) {
  for (const Strategy strategy : {Strategy::kFlat, Strategy::kTree, Strategy::kStacked}) {
    EngineOptions options;
    options.strategy = strategy;
    Engine engine(SharedModel(), options);
    const RequestId id = engine.Submit(Questions(8, 20));
    const RequestId other = engine.Submit(Questions(2, 20, 5));
    for (int i = 0; i < 4; ++i) engine.Step();
    EXPECT_GT(engine.receipt().kv_bytes_held, 0);
    engine.Cancel(id);
    engine.Cancel(id);
    EXPECT_EQ(engine.running(), 2);
    engine.Cancel(other);
    EXPECT_EQ(engine.running(), 0);
    EXPECT_EQ(engine.receipt().kv_bytes_held, 0);
    EXPECT_EQ(engine.TakeFinished().size(), 10u);
    engine.Step();  // what was under way leaves no trace
    EXPECT_TRUE(engine.TakeFinished().empty());
  }
}

TEST(EngineCancel, AnAnswerInTurnMakesRoomForTheNext) {
  EngineOptions options;
  options.strategy = Strategy::kSequential;
  Engine engine(SharedModel(), options);
  const RequestId id = engine.Submit(Questions(4, 10));
  for (int i = 0; i < 3; ++i) engine.Step();
  engine.Cancel(id, 0);
  engine.Cancel(id, 2);
  AnswersByTag found;
  while (engine.Step()) testing_support::Collect(engine, found);
  testing_support::Collect(engine, found);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found.at(0).finish, FinishReason::kCancelled);
  EXPECT_GT(found.at(0).tokens.size(), 0u);
  EXPECT_EQ(found.at(1).tokens.size(), 10u);
  EXPECT_EQ(found.at(2).finish, FinishReason::kCancelled);
  EXPECT_EQ(found.at(3).tokens.size(), 10u);
}

TEST(EngineQueue, IsBounded) {
  EngineOptions options;
  options.max_waiting = 10;
  Engine engine(SharedModel(), options);
  engine.Submit(Questions(6, 2));
  PromptSegment more = Questions(5, 2, 2);
  EXPECT_FALSE(engine.TrySubmit(more).has_value());
  EXPECT_EQ(more.below.size(), 5u);  // as it was
  EXPECT_EQ(more.tokens.size(), 60u);
  EXPECT_EQ(more.below[0].answers.size(), 1u);
  EXPECT_THAT(ErrorMessage(ErrorKind::kLimit, [&] { engine.Submit(more); }), HasSubstr("full"));
  while (engine.Step()) {
  }
  EXPECT_FALSE(engine.TrySubmit(more).has_value());  // six answers were not taken
  EXPECT_EQ(engine.TakeFinished().size(), 6u);
  EXPECT_TRUE(engine.TrySubmit(more).has_value());
  engine.Shutdown(Unfinished::kFinish);
  EXPECT_EQ(engine.TakeFinished().size(), 5u);
  PromptSegment large = Questions(50, 1);
  Engine fresh(SharedModel(), options);
  EXPECT_TRUE(fresh.TrySubmit(large).has_value());  // nothing waits
}

TEST(EngineQueue, SubmitWaitsForRoomOfARunningEngine) {
  EngineOptions options;
  options.max_waiting = 4;
  options.max_streams = 2;
  Engine engine(SharedModel(), options);
  engine.Start();
  std::thread taker([&] {
    size_t taken = 0;
    while (taken < 60) taken += engine.TakeEvents(1.0).size();
  });
  for (std::uint32_t i = 0; i < 30; ++i) engine.Submit(Questions(2, 2, i));
  taker.join();
  EXPECT_TRUE(engine.WaitUntilIdle(10.0));
}

TEST(EngineShutdown, FinishesOrCancels) {
  for (const bool started : {false, true}) {
    for (const Unfinished unfinished : {Unfinished::kFinish, Unfinished::kCancel}) {
      Engine engine(SharedModel(), {});
      if (started) engine.Start();
      engine.Submit(Questions(5, 200));
      engine.Shutdown(unfinished);
      const std::vector<Answer> answers = engine.TakeFinished();
      ASSERT_EQ(answers.size(), 5u);
      for (const Answer& answer : answers) {
        const bool finish = unfinished == Unfinished::kFinish;
        EXPECT_EQ(answer.finish, finish ? FinishReason::kLength : FinishReason::kCancelled);
      }
      EXPECT_EQ(engine.receipt().kv_bytes_held, 0);
      EXPECT_THAT(ErrorMessage(ErrorKind::kUsage, [&] { engine.Submit(Questions(1, 1)); }),
                  HasSubstr("shut down"));
      engine.Shutdown(Unfinished::kCancel);
    }
  }
}

// A context is known by its request, not by where its tokens lay: one that is gone fills no place.
TEST(EngineStacks, AContextThatIsOverFillsNoPlace) {
  EngineOptions options;
  options.strategy = Strategy::kStacked;
  options.questions_per_stack = 2;
  options.stacks = 1;
  Engine engine(SharedModel(), options);
  for (std::uint32_t round = 0; round < 20; ++round) {
    RunAll(engine, {Questions(1, 2, 40 + round)});
    engine.Submit(Questions(2, 5, 80 + round));
    engine.Submit(Questions(1, 5, 120 + round));
    engine.Step();
    EXPECT_EQ(engine.running(), 2) << round;  // both questions of one context, and no other
    while (engine.Step()) {
    }
    EXPECT_EQ(engine.TakeFinished().size(), 3u);
  }
}

TEST(EngineThread, AnswersAsTheLoopDoes) {
  Engine loop(SharedModel(), {});
  const AnswersByTag expected = RunAll(loop, {Questions(8, 20)});
  Engine engine(SharedModel(), {});
  engine.Start();
  engine.Start();  // once is enough
  engine.Submit(Questions(8, 20));
  AnswersByTag found;
  while (found.size() < 8) {
    for (AnswerEvent& event : engine.TakeEvents(5.0)) found[event.tag] = std::move(event.answer);
  }
  testing_support::ExpectSameAnswers(expected, found);
  EXPECT_TRUE(engine.WaitUntilIdle(5.0));
  EXPECT_TRUE(engine.TakeEvents(0.01).empty());
}

// Answers with the marker have no token to choose; steps can be made to fail as a whole.
class FaultyKernels : public testing_support::ForwardingKernels {
 public:
  static constexpr int kMarker = 7;  // top_logprobs
  using ForwardingKernels::ForwardingKernels;
  void Choose(const Tensor& logits, std::span<const SamplingRow> requests,
              const StepPanels& /*panels*/, std::unique_ptr<PendingChoices>& pending) override {
    if (fail_steps) throw Error(ErrorKind::kIo, "the device is lost");
    const std::span<TokenChoice> choices = HostChoices::RoomFor(requests.size(), pending);
    SelectTokens(logits, requests, choices);
    for (size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].top_logprobs == kMarker && ++marked > 3) choices[i].token = kNoToken;
    }
  }
  int marked = 0;
  bool fail_steps = false;
};

std::shared_ptr<Model> FaultyModel(FaultyKernels*& kernels) {
  const testing_support::TempDirectory directory;
  LoadOptions options;
  options.model =
      testing_support::WriteTinyGguf({.vocab = 260}, directory.path() / "tiny.gguf").string();
  options.precision = "f32";
  options.threads = 1;
  const std::shared_ptr<Model> model = Model::Load(options);
  auto faulty = std::make_unique<FaultyKernels>(std::move(model->parts().kernels));
  kernels = faulty.get();
  model->parts().kernels = std::move(faulty);
  return model;
}

TEST(EngineFaults, AnAnswerWithoutATokenFailsAlone) {
  for (const int steps_ahead : {0, 1}) {
    FaultyKernels* kernels = nullptr;
    const std::shared_ptr<Model> model = FaultyModel(kernels);
    EngineOptions options;
    options.steps_ahead = steps_ahead;
    Engine plain(model, options);
    const AnswersByTag expected = RunAll(plain, {Questions(4, 10)});
    PromptSegment request = Questions(4, 10);
    request.below[2].answers[0].top_logprobs = FaultyKernels::kMarker;
    Engine engine(model, options);
    const AnswersByTag found = RunAll(engine, {request});
    ASSERT_EQ(found.size(), 4u);
    EXPECT_EQ(found.at(2).finish, FinishReason::kError);
    EXPECT_THAT(found.at(2).error, HasSubstr("no token"));
    EXPECT_EQ(found.at(2).tokens.size(), 3u);
    for (const std::uint64_t tag : {0, 1, 3}) ExpectSameAnswer(expected.at(tag), found.at(tag));
    EXPECT_EQ(engine.receipt().failed, 1);
    EXPECT_EQ(engine.receipt().kv_bytes_held, 0);
  }
}

TEST(EngineFaults, AFailedStepEndsWhatIsUnderWayAndTheThreadGoesOn) {
  FaultyKernels* kernels = nullptr;
  const std::shared_ptr<Model> model = FaultyModel(kernels);
  kernels->fail_steps = true;
  Engine engine(model, {});
  engine.Submit(Questions(4, 10));
  engine.Start();
  EXPECT_TRUE(engine.WaitUntilIdle(10.0));
  std::vector<Answer> answers = engine.TakeFinished();
  ASSERT_EQ(answers.size(), 4u);
  for (const Answer& answer : answers) EXPECT_THAT(answer.error, HasSubstr("device is lost"));
  kernels->fail_steps = false;
  engine.Submit(Questions(4, 10));
  engine.Shutdown(Unfinished::kFinish);
  answers = engine.TakeFinished();
  ASSERT_EQ(answers.size(), 4u);
  for (const Answer& answer : answers) EXPECT_EQ(answer.tokens.size(), 10u);
}

}  // namespace
}  // namespace banyan
