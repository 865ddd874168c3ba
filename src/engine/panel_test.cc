// Several contexts that write one answer: what they write is what the definition says, and the same
// in any company, order and memory. (The oracles of outside models are in oracle_test.cc.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "base/error.h"
#include "engine/company_fixture.h"
#include "kernels/fusion_fixture.h"
#include "support/temp_directory.h"
#include "support/tiny_model.h"

namespace banyan {
namespace {

using testing_support::Answers;
using testing_support::AnswersAlone;
using testing_support::AnswersByTag;
using testing_support::Ask;
using testing_support::ExpectSameAnswers;
using testing_support::kContext;
using testing_support::LogitsAfter;
using testing_support::PageBytes;
using testing_support::PanelOver;
using testing_support::PathsOf;
using testing_support::Prompt;
using testing_support::RunAll;
using testing_support::RunOne;
using testing_support::SharedModel;
using testing_support::Tokens;

struct PanelShape {
  int system = 10, question = 8;
  std::vector<int> documents = {20, 35, 5};  // tokens of each
  int max_new = 20;
  std::uint32_t seed = 1;
};

PromptSegment PanelRequest(std::uint64_t tag, const PanelShape& shape,
                           const PanelOptions& options = {}) {
  std::vector<std::vector<TokenId>> documents;
  for (size_t k = 0; k < shape.documents.size(); ++k) {
    // Every second panel reads documents that others read too.
    const auto seed = static_cast<std::uint32_t>(100 + k + 7 * (shape.seed % 2));
    documents.push_back(Tokens(shape.documents[k], seed));
  }
  AnswerRequest answer = Ask(tag, shape.max_new);
  answer.panel = options;
  return PanelOver(Tokens(shape.system, shape.seed % 3), documents,
                   Tokens(shape.question, 50 + shape.seed), answer, [&](size_t k) {
                     return ExpertRequest{tag, 0.2 + 0.15 * static_cast<double>(k % 5)};
                   });
}

// Token after token from whole prompts: the definition, with nothing kept between steps.
Answer ByDefinition(const PromptSegment& request, const PanelOptions& options) {
  std::vector<std::vector<TokenId>> paths = PathsOf(request);
  std::vector<ExpertRow> experts;
  for (size_t k = 0; k + 1 < request.below.size(); ++k) {
    experts.push_back({static_cast<std::int32_t>(k + 1), options.beta,
                       request.below[k].below[0].experts[0].relevance});
  }
  Answer answer;
  const int vocabulary = SharedModel()->parts().config.vocab_size;
  for (int t = 0; t < request.below.back().answers[0].max_new; ++t) {
    std::vector<float> rows;
    for (const std::vector<TokenId>& path : paths) {
      const std::vector<float> logits = LogitsAfter(path);
      rows.insert(rows.end(), logits.begin(), logits.end());
    }
    const LogitRows logits{rows.data(), vocabulary, vocabulary};
    for (ExpertRow& expert : experts) {
      if (t > 0 || options.abstention == 0.0) break;
      const std::span<const float> row = logits.Row(expert.row);
      expert.abstention = ShareOf(row, LogSumExp(row), options.null_tokens);
    }
    if (t == 0 && options.beta_rule != BetaRule::kFixed) {
      double sum = 0.0;
      for (ExpertRow& expert : experts) {
        expert.beta = Divergence(logits.Row(expert.row), logits.Row(0));
        sum += expert.beta;
      }
      for (ExpertRow& expert : experts) {
        if (options.beta_rule == BetaRule::kShared) {
          expert.beta = sum / static_cast<double>(experts.size());
        }
      }
    }
    PanelRow panel;
    panel.rule = options.rule;
    panel.gamma = options.gamma;
    panel.scores = options.scores;
    panel.plausibility = options.plausibility;
    const bool once = options.abstention_scope == AbstentionScope::kFirstToken;
    panel.abstention = once && t > 0 ? 0.0 : options.abstention;
    panel.experts = experts;
    std::vector<float> fused(static_cast<size_t>(vocabulary));
    FusePanel(logits, panel, fused);
    const TokenChoice choice = SelectToken(fused, SamplingRow());
    answer.tokens.push_back(choice.token);
    answer.logprobs.push_back(choice.logprob);
    answer.experts.push_back(WinningExpert(logits, panel, choice.token));
    for (std::vector<TokenId>& path : paths) path.push_back(choice.token);
  }
  for (const ExpertRow& expert : experts) {
    answer.betas.push_back(expert.beta);
    if (options.abstention > 0.0) answer.abstentions.push_back(expert.abstention);
  }
  return answer;
}

constexpr double kAbstention = 0.5;

// Between what two experts say at first: some abstain from there on, and some do not.
double MiddleAbstention(const PromptSegment& request, const PanelOptions& options) {
  std::vector<double> shares = ByDefinition(request, options).abstentions;
  std::ranges::sort(shares);
  const size_t middle = shares.size() / 2;
  return 0.5 * (shares.at(middle - 1) + shares.at(middle));
}

std::vector<PanelOptions> EveryKind() {
  std::vector<PanelOptions> kinds(11);
  kinds[1].beta_rule = BetaRule::kShared;
  kinds[2].beta_rule = BetaRule::kFixed;
  kinds[2].beta = 0.5;
  kinds[3].rule = FusionRule::kMixture;
  kinds[4].rule = FusionRule::kProduct;
  kinds[5].gamma = 0.0;
  // Of tokens that are about as likely as any others, so that some experts abstain and some do not.
  for (size_t kind = 6; kind < kinds.size(); ++kind) {
    kinds[kind].scores = PanelScores::kNormalised;
    kinds[kind].plausibility = 0.1;
    kinds[kind].gamma = 1.0;
    if (kind == 6) continue;
    kinds[kind].abstention = kAbstention;
    for (TokenId token = 0; token < 128; ++token) kinds[kind].null_tokens.push_back(token);
  }
  kinds[8].rule = FusionRule::kMixture;
  kinds[9].beta_rule = BetaRule::kFixed;
  kinds[9].beta = 0.3;
  kinds[10].abstention_scope = AbstentionScope::kFirstToken;
  return kinds;
}

// The answer's segment is joined with a short question (Forest::AddTail), so declared segments are
// not those of whole prompts: bits may differ, tokens of such wide margins do not.
TEST(EnginePanel, WritesWhatTheDefinitionSays) {
  int silent = 0, voting = 0;
  for (PanelOptions options : EveryKind()) {
    PromptSegment request = PanelRequest(3, {.max_new = 6}, options);
    if (options.abstention > 0.0) options.abstention = MiddleAbstention(request, options);
    request.below.back().answers[0].panel = options;
    const Answer expected = ByDefinition(request, options);
    const Answer found = RunOne(request);
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_EQ(found.experts, expected.experts);
    ASSERT_EQ(found.betas.size(), expected.betas.size());
    for (size_t k = 0; k < found.betas.size(); ++k) {
      EXPECT_NEAR(found.betas[k], expected.betas[k], 1e-4);
      EXPECT_NEAR(found.logprobs[k], expected.logprobs[k], 1e-3);
    }
    ASSERT_EQ(found.abstentions.size(), expected.abstentions.size());
    for (size_t k = 0; k < found.abstentions.size(); ++k) {
      EXPECT_NEAR(found.abstentions[k], expected.abstentions[k], 1e-4);
      (found.abstentions[k] >= options.abstention ? silent : voting) += 1;
    }
  }
  EXPECT_TRUE(silent > 0 && voting > 0) << silent << " abstain, " << voting << " vote";
}

// One expert without contrast whose relevance is 1 writes what its prompt alone would.
TEST(EnginePanel, OfOneExpertIsThatExpert) {
  PanelOptions options;
  options.beta_rule = BetaRule::kFixed;
  PromptSegment request = PanelRequest(0, {.documents = {30}}, options);
  request.below[0].below[0].experts[0].relevance = 1.0;
  const Answer panel = RunOne(request);
  PromptSegment alone = request;
  alone.below.pop_back();
  alone.below[0].below[0].experts.clear();
  alone.below[0].below[0].answers = {Ask(0, 20)};
  const Answer plain = RunOne(alone);
  EXPECT_EQ(panel.tokens, plain.tokens);
  EXPECT_TRUE(testing_support::SameBits(panel.logprobs, plain.logprobs));
  EXPECT_EQ(panel.experts, std::vector<std::int32_t>(20, 0));
}

// Panels of all kinds and plain requests, in one pot.
std::vector<PromptSegment> Mixed(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) {
    return static_cast<int>(random() % static_cast<std::uint32_t>(n));
  };
  const std::vector<PanelOptions> kinds = EveryKind();
  std::vector<PromptSegment> requests;
  for (std::uint64_t tag = 0; tag < 14; ++tag) {
    if (tag % 3 == 2) {
      requests.push_back(Prompt(Tokens(5 + below(60), static_cast<std::uint32_t>(below(4))),
                                {Ask(tag, 1 + below(120))}));
      continue;
    }
    PanelShape shape;
    shape.system = below(3) == 0 ? 70 : below(12);
    shape.question = 1 + (below(3) == 0 ? 70 : below(10));
    shape.documents.clear();
    for (int k = 0; k <= below(5); ++k) shape.documents.push_back(below(40));
    shape.max_new = 1 + below(90);
    shape.seed = static_cast<std::uint32_t>(below(5));
    PanelOptions options = kinds[static_cast<size_t>(below(11))];
    if (options.abstention > 0.0) options.abstention = 0.4 + 0.04 * below(10);
    PromptSegment request = PanelRequest(tag, shape, options);
    AnswerRequest& answer = request.below.back().answers[0];
    if (below(3) == 0) answer.sampling.temperature = 1.0f;
    answer.sampling.seed = tag;
    if (below(3) == 0) answer.stop_tokens = {7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    if (below(4) == 0) answer.sampling.repetition_penalty = 1.3f;
    requests.push_back(request);
  }
  return requests;
}

TEST(EnginePanel, TheSameInAnyCompany) {
  for (std::uint32_t seed = 1; seed <= 2; ++seed) {
    const std::vector<PromptSegment> requests = Mixed(seed);
    const AnswersByTag expected = AnswersAlone(requests);
    for (const Strategy strategy : {Strategy::kFlat, Strategy::kPaged, Strategy::kStacked,
                                    Strategy::kTree, Strategy::kAuto}) {
      for (const int steps_ahead : {0, 1}) {
        for (const int pages : {0, strategy == Strategy::kFlat ? 125 : 90}) {
          SCOPED_TRACE(std::string(StrategyName(strategy)) + ", seed " + std::to_string(seed) +
                       ", ahead " + std::to_string(steps_ahead) + ", pages " +
                       std::to_string(pages));
          EngineOptions options;
          options.strategy = strategy;
          options.steps_ahead = steps_ahead;
          options.kv_memory = pages * PageBytes();
          options.batch_rows = pages > 0 ? 40 : 0;
          options.mixed_rows = seed % 2 == 0 ? -1 : 0;
          Engine engine(SharedModel(), options);
          ExpectSameAnswers(expected, RunAll(engine, requests));
          if (::testing::Test::HasFailure()) return;
          EXPECT_EQ(engine.receipt().kv_bytes_held, 0);
        }
      }
    }
  }
}

// Memory for one panel at its full length and half of another: the later one gives all of its
// branches back and is computed again.
TEST(EnginePanel, GivesWayAsOne) {
  std::vector<PromptSegment> requests;
  for (std::uint32_t i = 0; i < 4; ++i) {
    requests.push_back(
        PanelRequest(i, {.max_new = 90, .seed = i}, EveryKind()[static_cast<size_t>(i)]));
  }
  requests.push_back(Prompt(Tokens(9, 1), {Ask(9, 90)}));
  const AnswersByTag expected = Answers(requests);
  for (const Strategy strategy : {Strategy::kFlat, Strategy::kStacked, Strategy::kTree}) {
    for (const int steps_ahead : {0, 1}) {
      EngineOptions options;
      options.strategy = strategy;
      options.steps_ahead = steps_ahead;
      options.kv_memory = 60 * PageBytes();
      Engine engine(SharedModel(), options);
      ExpectSameAnswers(expected, RunAll(engine, requests));
      EXPECT_GT(engine.receipt().preempted, 0) << StrategyName(strategy);
      EXPECT_GT(engine.receipt().recomputed_tokens, 0) << StrategyName(strategy);
      EXPECT_EQ(engine.receipt().kv_bytes_held, 0);
    }
  }
}

// The same bits on a device, which measures betas there and reads them before the host has them.
TEST(EnginePanel, TheSameInAnyCompanyOnADevice) {
  const testing_support::TempDirectory directory;
  LoadOptions load;
  load.model = testing_support::WriteTinyGguf({.family = "qwen3",
                                               .vocab = 260,
                                               .hidden = 64,
                                               .kv_heads = 2,
                                               .head_dim = 64,
                                               .context = kContext,
                                               .seed = 6},
                                              directory.path() / "m.gguf")
                   .string();
  load.precision = "mixed";
  load.device = "cuda";
  try {
    const std::shared_ptr<Model> model = Model::Load(load);
    const std::vector<PromptSegment> requests = Mixed(5);
    const AnswersByTag expected = AnswersAlone(requests, model);
    for (const Strategy strategy : {Strategy::kFlat, Strategy::kStacked, Strategy::kTree}) {
      for (const int steps_ahead : {0, 1}) {
        EngineOptions options;
        options.strategy = strategy;
        options.steps_ahead = steps_ahead;
        options.kv_memory = steps_ahead * 150 * PageBytes(*model);
        Engine engine(model, options);
        ExpectSameAnswers(expected, RunAll(engine, requests));
        // Prompts of many steps: the first tokens follow a step that chose none.
        options.kv_memory = 0;
        options.batch_rows = 32;
        Engine small(model, options);
        ExpectSameAnswers(expected, RunAll(small, requests));
      }
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    GTEST_SKIP() << error.what();
  }
}

// A row for every branch at once, however narrow steps are.
TEST(EnginePanel, NeedsOneStepForItsFirstToken) {
  PanelShape shape;
  shape.documents.assign(20, 40);
  const PromptSegment request = PanelRequest(0, shape);
  const Answer expected = RunOne(request);
  for (const int rows : {21, 22, 64}) {
    EngineOptions options;
    options.batch_rows = rows;
    options.max_streams = 4;
    EXPECT_EQ(RunOne(request, options).tokens, expected.tokens) << rows;
  }
  EngineOptions narrow;
  narrow.batch_rows = 20;
  Engine engine(SharedModel(), narrow);
  try {
    engine.Submit(request);
    FAIL() << "21 streams in steps of 20 rows";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLimit);
  }
}

TEST(EnginePanel, IsCancelledAsOne) {
  const std::vector<PromptSegment> requests = {PanelRequest(1, {.max_new = 40}),
                                               PanelRequest(2, {.max_new = 40, .seed = 2})};
  const AnswersByTag expected = Answers(requests);
  for (const int steps_ahead : {0, 1}) {
    for (const int steps : {0, 1, 2, 9}) {
      EngineOptions options;
      options.steps_ahead = steps_ahead;
      Engine engine(SharedModel(), options);
      const RequestId first = engine.Submit(requests[0]);
      engine.Submit(requests[1]);
      for (int i = 0; i < steps; ++i) engine.Step();
      engine.Cancel(first, 1);
      AnswersByTag found;
      do {
        for (Answer& answer : engine.TakeFinished()) found[answer.tag] = answer;
      } while (engine.Step());
      for (Answer& answer : engine.TakeFinished()) found[answer.tag] = answer;
      ASSERT_EQ(found.size(), 2u);
      EXPECT_EQ(found.at(1).finish, FinishReason::kCancelled);
      const std::vector<TokenId>& all = expected.at(1).tokens;
      const std::vector<TokenId>& some = found.at(1).tokens;
      EXPECT_LT(some.size(), all.size());
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
      ExpectSameAnswers({{2, expected.at(2)}}, {{2, found.at(2)}});
      EXPECT_EQ(engine.receipt().kv_bytes_held, 0);
    }
  }
}

// The longest branch ends the answer of all.
TEST(EnginePanel, EndsWhereAContextIsFull) {
  const PromptSegment request = PanelRequest(
      0, {.system = 10, .question = 8, .documents = {5, kContext - 28}, .max_new = 90});
  const Answer answer = RunOne(request);
  EXPECT_EQ(answer.finish, FinishReason::kLength);
  EXPECT_EQ(answer.tokens.size(), 10u);
}

TEST(EnginePanel, FailsAloneWhereMemoryIsTooSmall) {
  EngineOptions options;
  options.kv_memory = 12 * PageBytes();
  Engine engine(SharedModel(), options);
  const AnswersByTag found = RunAll(
      engine, {PanelRequest(0, {.documents = {100, 100, 100}}), Prompt(Tokens(9, 1), {Ask(1, 5)})});
  EXPECT_EQ(found.at(0).finish, FinishReason::kError);
  EXPECT_NE(found.at(0).error.find("KV memory"), std::string::npos) << found.at(0).error;
  EXPECT_EQ(found.at(1).tokens.size(), 5u);
}

TEST(EnginePanel, WhatDoesNotFitTogetherIsRefused) {
  const auto refused = [](const PromptSegment& request, const EngineOptions& options = {}) {
    Engine engine(SharedModel(), options);
    try {
      engine.Submit(request);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  PromptSegment request = PanelRequest(4, {});
  EXPECT_EQ(refused(request), "");
  request.below[0].below[0].experts[0].relevance = 0.0;
  EXPECT_NE(refused(request).find("relevance"), std::string::npos);
  request = PanelRequest(4, {});
  request.below[0].below[0].experts[0].tag = 5;
  EXPECT_NE(refused(request).find("the answer 5"), std::string::npos);
  request = PanelRequest(4, {.documents = {}});
  EXPECT_NE(refused(request).find("no experts"), std::string::npos);
  request = PanelRequest(4, {});
  request.below.back().answers[0].panel->gamma = std::nan("");
  EXPECT_NE(refused(request).find("gamma"), std::string::npos);
  request = PanelRequest(4, {});
  request.below.back().answers[0].panel->plausibility = 1.5;
  EXPECT_NE(refused(request).find("plausibility"), std::string::npos);
  request = PanelRequest(4, {});
  request.below.back().answers[0].panel->null_tokens = {1 << 20};
  EXPECT_NE(refused(request).find("token"), std::string::npos);
  request = PanelRequest(4, {});
  request.below.back().answers.push_back(request.below.back().answers[0]);
  EXPECT_NE(refused(request).find("tag"), std::string::npos);
  EngineOptions sequential;
  sequential.strategy = Strategy::kSequential;
  EXPECT_NE(refused(PanelRequest(4, {}), sequential).find("sequential"), std::string::npos);
}

}  // namespace
}  // namespace banyan
