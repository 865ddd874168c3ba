// Models whose layers keep states: answers alone and in company, bit for bit, on random forests;
// long texts in pieces; what memory is counted; what is refused. BANYAN_TEST_ROUNDS=N runs N times
// as many forests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "engine/kv_concat.h"
#include "engine/memory/engine_memory.h"
#include "load/model_parts.h"
#include "support/error_message.h"
#include "support/temp_directory.h"
#include "support/tiny_states.h"
#include "support/workload.h"

namespace banyan {
namespace {

using testing::HasSubstr;
using testing_support::AnswersByTag;
using testing_support::ErrorMessage;
using testing_support::ExpectSameAnswers;
using testing_support::PageBytes;
using testing_support::RunAll;
using testing_support::StateFamilies;
using testing_support::TestRounds;
using testing_support::TightMemory;
using testing_support::TinyStates;
using testing_support::Workload;

PromptSegment StatesText(int tokens, int first_token) {
  PromptSegment segment;
  for (int i = 0; i < tokens; ++i) segment.tokens.push_back((first_token + 7 * i) % 190);
  return segment;
}

PromptSegment StatesQuestion(int tokens, int first_token, std::uint64_t tag) {
  PromptSegment question = StatesText(tokens, first_token);
  AnswerRequest answer;
  answer.tag = tag;
  answer.max_new = 3;
  question.answers.push_back(answer);
  return question;
}

class States : public ::testing::Test {
 protected:
  std::shared_ptr<Model> Load(const std::string& family, const char* precision = "f32",
                              int threads = 1, const char* device = "cpu") {
    LoadOptions options;
    options.model = TinyStates(family, 3).Write(directory_.path() / family).string();
    options.device = device;
    options.precision = precision;
    options.threads = threads;
    return Model::Load(options);
  }

  static AnswersByTag Alone(const std::shared_ptr<Model>& model, const Workload& work) {
    EngineOptions options;
    options.strategy = Strategy::kFlat;
    options.one_by_one = true;
    Engine engine(model, options);
    return RunAll(engine, work.requests());
  }

  static EngineOptions RandomWay(std::mt19937& random, const Model& model, const Workload& work) {
    const auto below = [&](int n) {
      return static_cast<int>(random() % static_cast<std::uint32_t>(n));
    };
    static constexpr Strategy kStrategies[] = {Strategy::kFlat, Strategy::kPaged, Strategy::kTree,
                                               Strategy::kAuto};
    static constexpr int kBatchRows[] = {1, 3, 17, 64, 300, 512};
    EngineOptions options;
    options.strategy = kStrategies[below(4)];
    options.share_levels = below(3);
    options.batch_rows = kBatchRows[below(6)];
    options.one_by_one = below(10) == 0;
    options.steps_ahead = below(2);
    if (below(2) == 0) {
      options.kv_memory = TightMemory(model, work.LargestStreamPages(kPageTokens) + 6);
    }
    return options;
  }

  testing_support::TempDirectory directory_;
};

// Fresh, and once more over what the first run left in the cache.
void ExpectExact(const std::shared_ptr<Model>& model, const Workload& work,
                 const EngineOptions& options, int steps_between, const AnswersByTag& expected) {
  SCOPED_TRACE(fmt::format("{}, batch_rows {}, kv_memory {}, share_levels {}, between {}",
                           StrategyName(options.strategy), options.batch_rows, options.kv_memory,
                           options.share_levels, steps_between));
  Engine engine(model, options);
  ExpectSameAnswers(expected, RunAll(engine, work.requests(), steps_between));
  ExpectSameAnswers(expected, RunAll(engine, work.requests(), steps_between));
  const Receipt receipt = engine.receipt();
  EXPECT_EQ(receipt.kv_bytes_held, 0);
  EXPECT_GT(receipt.state_bytes_peak, 0);
  EXPECT_LE(receipt.state_bytes_peak, receipt.state_bytes_total);
  if (options.kv_memory > 0) {
    EXPECT_LE(receipt.kv_bytes_total, options.kv_memory);
  }
}

TEST_F(States, AnswersAreExactOnRandomForests) {
  std::mt19937 random(5);
  for (int round = 0; round < TestRounds(); ++round) {
    for (const std::string& family : StateFamilies()) {
      for (const char* precision : {"f32", "mixed"}) {
        const auto seed = static_cast<std::uint32_t>(random());
        SCOPED_TRACE(fmt::format("round {}, {} {}, workload {}", round, family, precision, seed));
        const Workload work(seed,
                            {.roots = 2, .path_tokens = 900, .root_tokens = 1100, .max_new = 6});
        const auto model = Load(family, precision);
        const AnswersByTag expected = Alone(model, work);
        ASSERT_EQ(expected.size(), work.answers());
        for (int i = 0; i < 4; ++i) {
          const int between = random() % 2 == 0 ? -1 : 1 + static_cast<int>(random() % 4);
          ExpectExact(model, work, RandomWay(random, *model, work), between, expected);
        }
        const auto threaded = Load(family, precision, 3);
        ExpectExact(threaded, work, RandomWay(random, *threaded, work), -1, expected);
        if (HasFailure()) return;
      }
    }
  }
}

// On a GPU, with recorded steps whose states are in its memory.
TEST_F(States, DeviceAnswersAreExact) {
  std::mt19937 random(6);
  for (int round = 0; round < TestRounds(); ++round) {
    for (const std::string& family : StateFamilies()) {
      for (const char* precision : {"f32", "mixed", "w8a8"}) {
        const auto seed = static_cast<std::uint32_t>(random());
        SCOPED_TRACE(fmt::format("round {}, {} {}, workload {}", round, family, precision, seed));
        std::shared_ptr<Model> model;
        try {
          model = Load(family, precision, 1, "cuda");
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::kUnsupported) throw;
          GTEST_SKIP() << error.what();
        }
        const Workload work(seed,
                            {.roots = 2, .path_tokens = 900, .root_tokens = 1100, .max_new = 8});
        const AnswersByTag expected = Alone(model, work);
        ASSERT_EQ(expected.size(), work.answers());
        for (int i = 0; i < 3; ++i) {
          const int between = random() % 2 == 0 ? -1 : 1 + static_cast<int>(random() % 4);
          EngineOptions options = RandomWay(random, *model, work);
          if (i == 0) options.steps_ahead = 1;
          ExpectExact(model, work, options, between, expected);
        }
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(States, TheReferenceIsExactToo) {
  const Workload work(9, {.roots = 1,
                          .depth = 3,
                          .children = 2,
                          .path_tokens = 120,
                          .root_tokens = 150,
                          .least_answers = 4,
                          .max_new = 4,
                          .around_groups = false});
  for (const std::string& family : StateFamilies()) {
    SCOPED_TRACE(family);
    const auto model = Load(family, "f32", 1, "reference");
    const AnswersByTag expected = Alone(model, work);
    EngineOptions options;
    options.batch_rows = 7;
    ExpectExact(model, work, options, -1, expected);
  }
}

// Of one sequence of tokens, and of texts that branch from one another.
TEST_F(States, TheCpuComputesWhatTheReferenceDoes) {
  for (const std::string& family : StateFamilies()) {
    SCOPED_TRACE(family);
    PromptSegment text = StatesText(150, 3);
    for (std::uint64_t tag = 0; tag < 3; ++tag) {
      text.below.push_back(StatesQuestion(11, static_cast<int>(tag) * 9, tag));
      text.below.back().answers[0].want_logits = true;
    }
    Engine cpu(Load(family), {}), reference(Load(family, "f32", 1, "reference"), {});
    const AnswersByTag found = RunAll(cpu, {text}), expected = RunAll(reference, {text});
    for (std::uint64_t tag = 0; tag < 3; ++tag) {
      EXPECT_EQ(found.at(tag).tokens, expected.at(tag).tokens);
      const std::vector<float>& logits = found.at(tag).prompt_logits;
      ASSERT_EQ(logits.size(), 200u);
      for (size_t i = 0; i < logits.size(); ++i) {
        ASSERT_NEAR(logits[i], expected.at(tag).prompt_logits[i], 2e-4) << "logit " << i;
      }
    }
  }
}

// With hardly any memory streams are preempted, and what they had is computed again.
TEST_F(States, PreemptedStreamsGoOnWithTheSameBits) {
  std::int64_t preempted = 0;
  for (const std::string& family : StateFamilies()) {
    SCOPED_TRACE(family);
    const auto model = Load(family);
    const Workload work(11, {.roots = 6,
                             .depth = 3,
                             .children = 3,
                             .path_tokens = 100,
                             .root_tokens = 200,
                             .least_answers = 30,
                             .max_new = 100,
                             .around_groups = false});
    const AnswersByTag expected = Alone(model, work);
    for (const Strategy strategy : {Strategy::kTree, Strategy::kFlat}) {
      EngineOptions options;
      options.strategy = strategy;
      options.batch_rows = 24;
      options.kv_memory = TightMemory(*model, work.LargestStreamPages(kPageTokens) + 3);
      Engine engine(model, options);
      ExpectSameAnswers(expected, RunAll(engine, work.requests()));
      preempted += engine.receipt().preempted;
    }
  }
  EXPECT_GT(preempted, 10);
}

// Two long texts that begin alike share the pieces that are whole, as they end in a state.
TEST_F(States, LongTextsShareWholePieces) {
  const auto model = Load("lfm2");
  const int piece = PieceTokens(model->parts());
  ASSERT_EQ(piece % 128, 0);
  Engine engine(model, {});
  const int length = 2 * piece + 200;
  PromptSegment first = StatesQuestion(length, 1, 1), second = StatesQuestion(length, 1, 2);
  second.tokens[static_cast<size_t>(piece) + 300] = 191;
  AnswersByTag together = RunAll(engine, {first});
  const std::int64_t before = engine.receipt().prefilled_tokens;
  EXPECT_EQ(before, length);
  together.merge(RunAll(engine, {second}));
  EXPECT_EQ(engine.receipt().prefilled_tokens - before, length - piece);
  // The same prompt once more: its last token is fed again from the state before it.
  const std::int64_t after = engine.receipt().prefilled_tokens;
  first.answers[0].tag = 3;
  together.merge(RunAll(engine, {first}));
  EXPECT_EQ(engine.receipt().prefilled_tokens - after, 1);
  EXPECT_EQ(together.at(3).tokens, together.at(1).tokens);
  EngineOptions alone;
  alone.strategy = Strategy::kFlat;
  alone.one_by_one = true;
  Engine oracle(model, alone);
  AnswersByTag expected = RunAll(oracle, {first, second});
  expected[1] = expected.at(3);
  expected[1].tag = 1;
  ExpectSameAnswers(expected, together);
}

// Questions branch from the document's state: it is computed once.
TEST_F(States, BranchesComputeTheirStemOnce) {
  const auto model = Load("granitemoehybrid");
  PromptSegment document = StatesText(300, 5);
  for (std::uint64_t tag = 0; tag < 8; ++tag) {
    document.below.push_back(StatesQuestion(9, static_cast<int>(tag) * 11, tag));
  }
  Engine engine(model, {});
  engine.Submit(document);
  const std::string explained = engine.Explain();
  EXPECT_THAT(explained, HasSubstr(fmt::format("states    at most 9 of {} bytes: ",
                                               StateBytesOf(model->parts().config))));
  while (engine.Step()) {
  }
  const Receipt receipt = engine.receipt();
  EXPECT_EQ(receipt.prefilled_tokens, 300 + 8 * 9);
  // After the document, and one for every question with its answer.
  EXPECT_EQ(receipt.state_bytes_peak, (1 + 8) * StateBytesOf(model->parts().config));
}

// Where another prompt may go on, a state is kept; elsewhere the next one takes its place.
TEST_F(States, OnlyWhatMayBeSharedHasASlotOfItsOwn) {
  const auto model = Load("lfm2");
  struct Case {
    const char* what;
    PromptSegment root;
    int slots;
    int computed_again;  // tokens, when the same prompts come once more
  };
  std::vector<Case> cases;
  cases.push_back({"a short prompt", StatesQuestion(9, 1, 1), 1, 9});
  cases.push_back({"a token", StatesQuestion(1, 1, 1), 1, 1});
  cases.push_back({"a long prompt", StatesQuestion(300, 1, 1), 2, 1});
  PromptSegment several = StatesQuestion(9, 1, 1);
  for (std::uint64_t tag = 2; tag < 4; ++tag) {
    several.answers.push_back(several.answers.front());
    several.answers.back().tag = tag;
  }
  cases.push_back({"three answers to a question", several, 1 + 3, 3});
  several = StatesText(40, 5);
  several.below.push_back(StatesQuestion(1, 1, 1));
  several.below.front().below.push_back(StatesQuestion(20, 7, 2));
  cases.push_back({"a question that goes on", several, 1 + 1 + 1 + 1, 1 + 20});
  several = StatesQuestion(40, 5, 1);
  several.below.push_back(StatesQuestion(20, 7, 2));
  cases.push_back({"an answer to a text with a question", several, 1 + 1 + 1, 40 + 20});
  several = StatesText(40, 5);
  several.below.push_back(StatesQuestion(20, 7, 1));
  several.below.push_back(StatesQuestion(20, 7, 2));
  cases.push_back({"a question twice", several, 1 + 2, 2 * 20});
  several = StatesText(40, 5);
  several.below.push_back(StatesQuestion(20, 7, 1));
  several.below.front().answers.front().max_new = 1;
  cases.push_back({"an answer of one token", several, 1 + 1, 20});
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    EngineOptions alone;
    alone.strategy = Strategy::kFlat;
    alone.one_by_one = true;
    Engine oracle(model, alone), engine(model, {});
    const AnswersByTag expected = RunAll(oracle, {one.root});
    ExpectSameAnswers(expected, RunAll(engine, {one.root}));
    EXPECT_EQ(engine.receipt().state_bytes_peak, one.slots * StateBytesOf(model->parts().config));
    const std::int64_t before = engine.receipt().prefilled_tokens;
    ExpectSameAnswers(expected, RunAll(engine, {one.root}));
    EXPECT_EQ(engine.receipt().prefilled_tokens - before, one.computed_again);
  }
}

// As many questions at once as there are slots beside that of their document.
TEST_F(States, AQuestionWithItsAnswerFitsInOneSlot) {
  const auto model = Load("qwen3_5_text");
  const std::int64_t state = StateBytesOf(model->parts().config);
  PromptSegment document = StatesText(100, 5);
  for (std::uint64_t tag = 0; tag < 12; ++tag) {
    document.below.push_back(StatesQuestion(9, static_cast<int>(tag) * 11, tag));
    document.below.back().answers[0].max_new = 30;
  }
  EngineOptions options;
  options.kv_memory = 2 * 13 * state + 200 * PageBytes(*model);
  Engine engine(model, options);
  RunAll(engine, {document});
  const Receipt receipt = engine.receipt();
  EXPECT_EQ(receipt.preempted, 0);
  EXPECT_EQ(receipt.state_bytes_peak, 13 * state);
  EXPECT_EQ(receipt.steps, 30) << "all in company from the first token on";
  // One after another where there is hardly any memory.
  document.tokens.resize(10);
  for (PromptSegment& question : document.below) question.answers[0].max_new = 6;
  options.kv_memory = 7 * state;
  Engine narrow(model, options);
  ExpectSameAnswers(RunAll(engine, {document}), RunAll(narrow, {document}));
  EXPECT_LE(narrow.receipt().state_bytes_peak, 3 * state);
}

TEST_F(States, TooLittleMemoryIsSaid) {
  const auto model = Load("qwen3_5_text");
  const std::int64_t state = StateBytesOf(model->parts().config);
  EngineOptions options;
  options.kv_memory = 3 * state;
  EXPECT_THAT(ErrorMessage(ErrorKind::kLimit, [&] { Engine(model, options); }),
              HasSubstr("bytes each: room for 1, expected for at least 2"));
  // Slots for four states, and a path that needs more.
  options.kv_memory = 2 * 4 * state;
  PromptSegment root = StatesText(5, 1);
  PromptSegment* last = &root;
  for (int i = 0; i < 5; ++i) {
    last->below.push_back(StatesText(5, i));
    last = &last->below.back();
  }
  last->below.push_back(StatesQuestion(3, 1, 1));
  Engine engine(model, options);
  const AnswersByTag answers = RunAll(engine, {root});
  EXPECT_EQ(answers.at(1).finish, FinishReason::kError);
  EXPECT_THAT(answers.at(1).error, HasSubstr("4 slots for the states"));
}

TEST_F(States, WhatNeedsAttentionInEveryLayerIsRefused) {
  const auto model = Load("lfm2");
  EngineOptions stacked;
  stacked.strategy = Strategy::kStacked;
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { Engine(model, stacked); }),
              HasSubstr("lfm2 keep states"));
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { KvConcat concat(model); }),
              HasSubstr("kv-concat joins"));
  PromptSegment values = StatesQuestion(4, 1, 1);
  values.skeleton = true;
  Engine engine(model, {});
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { engine.Submit(values); }),
              HasSubstr("a skeleton's values"));
}

}  // namespace
}  // namespace banyan
