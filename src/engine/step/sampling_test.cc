#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <array>
#include <cmath>
#include <set>

#include "engine/request/stream.h"
#include "engine/step/sampling.h"

namespace banyan {

namespace {

using ::testing::ElementsAre;

// The stream of an answer with two experts, of relevance 0.5 and 0.25.
std::unique_ptr<Stream> StreamOfPanel(const PanelOptions& options) {
  PromptSegment root;
  root.tokens = {1};
  for (int i = 0; i < 3; ++i) root.below.emplace_back().tokens = {2 + i};
  root.below[0].answers.emplace_back().panel = options;
  root.below[1].experts.push_back({0, 0.5});
  root.below[2].experts.push_back({0, 0.25});
  WaitingQueue line;
  line.Add(MakeRequestTree(root, /*sequential=*/false));
  return line.Take();
}

std::vector<std::int32_t> RowsOf(const PanelRow& panel) {
  std::vector<std::int32_t> rows;
  for (const ExpertRow& expert : panel.experts) rows.push_back(expert.row);
  return rows;
}
std::vector<double> RelevancesOf(const PanelRow& panel) {
  std::vector<double> relevances;
  for (const ExpertRow& expert : panel.experts) relevances.push_back(expert.relevance);
  return relevances;
}
std::vector<double> BetasOf(const PanelRow& panel) {
  std::vector<double> betas;
  for (const ExpertRow& expert : panel.experts) betas.push_back(expert.beta);
  return betas;
}

const std::vector<std::int32_t> kBranchRows = {7, 3, 5};

TEST(PanelRows, TheAnswersOwnSegmentIsThePriorOrTheFirstExpert) {
  PanelRows panels;
  PanelOptions options;
  const auto with_prior = StreamOfPanel(options);
  options.prior = false;
  const auto without = StreamOfPanel(options);
  EXPECT_EQ(panels.Add(*with_prior, kBranchRows), 0);
  EXPECT_EQ(panels.Add(*without, kBranchRows), 1);
  EXPECT_EQ(panels.rows()[0].prior, 7);
  EXPECT_THAT(RowsOf(panels.rows()[0]), ElementsAre(3, 5));
  EXPECT_THAT(RelevancesOf(panels.rows()[0]), ElementsAre(0.5, 0.25));
  EXPECT_THAT(RowsOf(panels.rows()[1]), ElementsAre(7, 3, 5));
  EXPECT_THAT(RelevancesOf(panels.rows()[1]), ElementsAre(1.0, 0.5, 0.25));
  panels.Clear();
  EXPECT_TRUE(panels.empty());
}

TEST(PanelRows, BetasAreMeasuredOnceAndThenKept) {
  PanelOptions options;
  for (const BetaRule rule : {BetaRule::kExpert, BetaRule::kShared}) {
    PanelRows panels;
    options.beta_rule = rule;
    const auto stream = StreamOfPanel(options);
    panels.Add(*stream, kBranchRows);
    EXPECT_EQ(panels.rows()[0].betas,
              rule == BetaRule::kShared ? BetaSource::kMean : BetaSource::kMeasured);
    EXPECT_EQ(panels.rows()[0].earlier_choice, -1);
    // The first token is under way: only the backend knows them.
    stream->tokens_in_flight = 1;
    stream->choice = 4;
    panels.Add(*stream, kBranchRows);
    EXPECT_EQ(panels.rows()[1].betas, BetaSource::kEarlier);
    EXPECT_EQ(panels.rows()[1].earlier_choice, 4);
    // It was taken.
    stream->tokens_in_flight = 0;
    stream->answer.tokens = {9};
    TokenChoice choice;
    choice.betas = {0.1, 0.2};
    KeepMeasured(*stream, choice);
    choice.betas = {0.3, 0.4};
    KeepMeasured(*stream, choice);  // later ones change nothing
    panels.Add(*stream, kBranchRows);
    EXPECT_EQ(panels.rows()[2].betas, BetaSource::kGiven);
    EXPECT_THAT(BetasOf(panels.rows()[2]), ElementsAre(0.1, 0.2));
  }
}

TEST(PanelRows, AFixedBetaIsGiven) {
  PanelRows panels;
  PanelOptions options;
  options.beta_rule = BetaRule::kFixed;
  options.beta = 0.75;
  const auto stream = StreamOfPanel(options);
  panels.Add(*stream, kBranchRows);
  EXPECT_EQ(panels.rows()[0].betas, BetaSource::kGiven);
  EXPECT_THAT(BetasOf(panels.rows()[0]), ElementsAre(0.75, 0.75));
  KeepMeasured(*stream, {});
  EXPECT_THAT(stream->answer.betas, ElementsAre(0.75, 0.75));
}

TEST(PanelRows, ExpertsAbstainForTheAnswerOrForItsFirstToken) {
  for (const AbstentionScope scope : {AbstentionScope::kAnswer, AbstentionScope::kFirstToken}) {
    PanelRows panels;
    PanelOptions options;
    options.abstention = 0.4;
    options.abstention_scope = scope;
    const auto stream = StreamOfPanel(options);
    panels.Add(*stream, kBranchRows);
    EXPECT_EQ(panels.rows()[0].abstention, 0.4);
    EXPECT_EQ(panels.rows()[0].abstentions, AbstentionSource::kMeasured);
    stream->answer.tokens = {9};
    stream->answer.abstentions = {0.9, 0.1};
    panels.Add(*stream, kBranchRows);
    EXPECT_EQ(panels.rows()[1].abstention, scope == AbstentionScope::kAnswer ? 0.4 : 0.0);
    EXPECT_EQ(panels.rows()[1].abstentions, AbstentionSource::kGiven);
    EXPECT_EQ(panels.rows()[1].experts[0].abstention, 0.9);
  }
}

std::unique_ptr<Stream> StreamWanting(const std::vector<AnswerRequest>& answers) {
  PromptSegment root;
  root.tokens = {1};
  for (const AnswerRequest& answer : answers) {
    root.below.emplace_back().tokens = {2};
    root.below.back().answers.push_back(answer);
  }
  WaitingQueue line;
  line.Add(MakeRequestTree(root, /*sequential=*/true));
  return line.Take();
}

bool TakenAtOnce(const AnswerRequest& answer) {
  SamplingBatch choices;
  const auto stream = StreamWanting({answer});
  choices.Add(*stream, std::vector{0});
  return choices.take_at_once();
}

TEST(SamplingBatch, GivenTokensAreForcedOneByOneAlsoAhead) {
  AnswerRequest answer;
  answer.forced = {40, 41, 42};
  const auto stream = StreamWanting({answer});
  SamplingBatch choices;
  choices.Add(*stream, std::vector{3});
  EXPECT_EQ(choices.rows()[0].row, 3);
  EXPECT_EQ(choices.rows()[0].forced, 40);
  stream->answer.tokens = {40};
  stream->tokens_in_flight = 1;
  choices.Add(*stream, std::vector{0});
  EXPECT_EQ(choices.rows()[1].forced, 42);
  stream->tokens_in_flight = 2;  // there is no fourth
  choices.Add(*stream, std::vector{0});
  EXPECT_EQ(choices.rows()[2].forced, -1);
  choices.Clear();
  EXPECT_TRUE(choices.rows().empty());
}

// A draw depends on the token's place in the answer, not on when it is asked for.
TEST(SamplingBatch, ADrawIsThatOfTheTokensPlace) {
  AnswerRequest answer;
  answer.sampling.temperature = 1.0f;
  const auto stream = StreamWanting({answer});
  SamplingBatch choices;
  stream->answer.tokens = {5};
  stream->tokens_in_flight = 1;
  choices.Add(*stream, std::vector{0});
  stream->answer.tokens = {5, 6};
  stream->tokens_in_flight = 0;
  choices.Add(*stream, std::vector{0});
  stream->answer.tokens = {5, 6, 7};
  choices.Add(*stream, std::vector{0});
  EXPECT_EQ(choices.rows()[0].uniform, choices.rows()[1].uniform);
  EXPECT_NE(choices.rows()[1].uniform, choices.rows()[2].uniform);
}

TEST(SamplingBatch, SomeTokensMustBeTakenBeforeTheNextStep) {
  AnswerRequest plain;
  EXPECT_FALSE(TakenAtOnce(plain));
  AnswerRequest penalised;
  penalised.sampling.repetition_penalty = 1.5f;
  EXPECT_TRUE(TakenAtOnce(penalised));
  AnswerRequest logits;
  logits.want_logits = true;
  EXPECT_TRUE(TakenAtOnce(logits));
  SamplingBatch choices;
  const auto in_turn = StreamWanting({plain, plain});
  choices.Add(*in_turn, std::vector{0});
  EXPECT_TRUE(choices.take_at_once());
  choices.Clear();
  EXPECT_FALSE(choices.take_at_once());
}

TEST(SamplingBatch, LogitsAreThoseOfTheFirstToken) {
  AnswerRequest answer;
  answer.want_logits = true;
  const auto stream = StreamWanting({answer});
  SamplingBatch choices;
  choices.Add(*stream, std::vector{0});
  EXPECT_TRUE(choices.want_logits());
  choices.Clear();
  stream->state = Stream::State::kDecode;
  choices.Add(*stream, std::vector{0});
  EXPECT_FALSE(choices.want_logits());
}

}  // namespace

// Draws are uniform, independent of one another, and functions of their whole key.

namespace {

constexpr int kDraws = 20000;

double Mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// The key with its field `field` set to i.
DrawKey KeyOf(int field, std::uint64_t i) {
  DrawKey key{1, 2, 3, 4, 5};
  const std::array<std::uint64_t*, 5> fields = {&key.seed, &key.request, &key.question, &key.sample,
                                                &key.position};
  *fields[static_cast<size_t>(field)] = i;
  return key;
}

TEST(Random, TheSameKeyTheSameDraw) {
  EXPECT_EQ(UniformOf({1, 2, 3, 4, 5}), UniformOf({1, 2, 3, 4, 5}));
}

TEST(Random, EveryFieldCountsInItsPlace) {
  std::set<double> draws;
  for (int field = 0; field < 5; ++field) draws.insert(UniformOf(KeyOf(field, 77)));
  EXPECT_EQ(draws.size(), 5u);
  EXPECT_NE(UniformOf({0, 1, 0, 0, 0}), UniformOf({0, 0, 1, 0, 0}));
}

// Along each field: in [0, 1), sixteen equal bins filled alike (Pearson's statistic has mean 15 and
// deviation 5.5), and neighbours uncorrelated (deviation 1 / sqrt(draws)).
TEST(Random, UniformAndIndependentAlongEveryField) {
  for (int field = 0; field < 5; ++field) {
    SCOPED_TRACE(field);
    std::vector<double> draws;
    std::array<int, 16> bins{};
    for (std::uint64_t i = 0; i < kDraws; ++i) {
      const double u = UniformOf(KeyOf(field, i));
      ASSERT_GE(u, 0.0);
      ASSERT_LT(u, 1.0);
      draws.push_back(u);
      ++bins[static_cast<size_t>(u * 16.0)];
    }
    const double expected = kDraws / 16.0;
    double statistic = 0.0;
    for (const int count : bins) statistic += (count - expected) * (count - expected) / expected;
    EXPECT_LT(statistic, 15.0 + 5.0 * 5.5);
    const double mean = Mean(draws);
    EXPECT_NEAR(mean, 0.5, 5.0 * std::sqrt(1.0 / 12.0 / kDraws));
    double covariance = 0.0, variance = 0.0;
    for (size_t i = 0; i + 1 < draws.size(); ++i) {
      covariance += (draws[i] - mean) * (draws[i + 1] - mean);
      variance += (draws[i] - mean) * (draws[i] - mean);
    }
    EXPECT_NEAR(covariance / variance, 0.0, 5.0 / std::sqrt(static_cast<double>(kDraws)));
  }
}

// Two fields that move together must not cancel.
TEST(Random, FieldsDoNotCancel) {
  std::set<double> draws;
  for (std::uint64_t i = 0; i < 1000; ++i) draws.insert(UniformOf({7, i, i, i, i}));
  EXPECT_EQ(draws.size(), 1000u);
}

}  // namespace

}  // namespace banyan
