// Skeletons whose values are written by panels: what they write is what the documents' skeletons
// say token by token, and the same in any company, order and memory.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "load/model_parts.h"
#include "support/error_message.h"
#include "support/temp_directory.h"
#include "support/tiny_model.h"
#include "support/workload.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;
using testing_support::AnswersByTag;
using testing_support::ErrorMessage;
using testing_support::ExpectSameAnswers;
using testing_support::RunAll;

constexpr int kTinyVocab = 200;

// A thing: documents of these many tokens with one template after each.
struct ThingShape {
  std::vector<int> documents;
  int slots = 4;
  bool together = true;
  bool prior = false;  // a template after no document at all
  double abstention = 0.0;
};

class SkeletonPanels : public ::testing::Test {
 protected:
  void SetUp() override { Load({.family = "llama", .tied = true, .seed = 31}); }

  void Load(const testing_support::TinyShape& shape, const std::string& device = "cpu") {
    const testing_support::TempDirectory directory;
    LoadOptions options;
    options.model = testing_support::WriteTinyGguf(shape, directory.path() / "tiny.gguf").string();
    options.precision = "f32";
    options.threads = 1;
    options.device = device;
    model_ = Model::Load(options);
  }

  int Below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }

  std::vector<TokenId> RandomTokens(int count) {
    std::vector<TokenId> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(Below(kTinyVocab));
    return tokens;
  }

  PanelOptions Rule(const ThingShape& shape) {
    PanelOptions panel;
    panel.prior = shape.prior;
    panel.scores = PanelScores::kNormalised;
    panel.plausibility = 0.1;
    panel.gamma = 0.0;
    if (!shape.prior) {
      panel.beta_rule = BetaRule::kFixed;
      panel.beta = 0.0;
    }
    panel.abstention = shape.abstention;
    panel.null_tokens = {3, 4, 5};
    return panel;
  }

  // The instruction, and below it the documents with the same template; the first has the answers.
  PromptSegment Thing(const ThingShape& shape) {
    static constexpr int kPieces[] = {1, 2, 3, 5, 17, 64, 65, 130};
    PromptSegment root;
    root.tokens = RandomTokens(1 + Below(80));
    PromptSegment pattern;
    PromptSegment* piece = &pattern;
    for (int n = 0; n < shape.slots; ++n) {
      if (n > 0) piece = &piece->below.emplace_back();
      piece->tokens = RandomTokens(kPieces[Below(n % 2 == 0 ? 8 : 4)]);
      AnswerRequest& value = piece->answers.emplace_back();
      value.tag = next_tag_++;
      value.max_new = 1 + Below(9);
      if (Below(2) == 0) value.stop_tokens = RandomTokens(kTinyVocab / 8);
      value.panel = Rule(shape);
    }
    std::vector<int> lengths = shape.documents;
    if (shape.prior) lengths.insert(lengths.begin(), 0);
    for (size_t k = 0; k < lengths.size(); ++k) {
      PromptSegment& document = root.below.emplace_back();
      document.tokens = RandomTokens(lengths[k]);
      auto position = static_cast<std::int32_t>(root.tokens.size() + document.tokens.size());
      PromptSegment copy = pattern;
      for (PromptSegment* at = &copy;; at = &at->below.front()) {
        at->first_position = position;
        position += static_cast<std::int32_t>(at->tokens.size()) + at->answers.front().max_new;
        if (k > 0) {
          at->experts.push_back({at->answers.front().tag, 1.0});
          at->answers.clear();
        }
        if (at->below.empty()) break;
      }
      copy.skeleton = shape.together && k == 0;
      document.below.push_back(std::move(copy));
    }
    return root;
  }

  AnswersByTag Alone(const std::vector<PromptSegment>& things) {
    EngineOptions options;
    options.strategy = Strategy::kFlat;
    options.one_by_one = true;
    options.steps_ahead = 0;
    AnswersByTag answers;
    for (const PromptSegment& thing : things) {
      Engine engine(model_, options);
      answers.merge(RunAll(engine, {thing}));
    }
    return answers;
  }

  // What document k's own skeleton says when its values are those that the panels wrote:
  // log-probabilities of all tokens, [slots][tokens of the value][vocabulary].
  std::vector<std::vector<std::vector<double>>> OfDocument(const PromptSegment& thing, size_t k,
                                                           const std::vector<Answer>& written) {
    PromptSegment plain;
    plain.tokens = thing.tokens;
    plain.below.push_back(thing.below[k]);
    size_t slot = 0;
    PromptSegment* piece = &plain.below[0].below[0];
    piece->skeleton = thing.below[0].below[0].skeleton;
    for (;; piece = &piece->below.front()) {
      piece->experts.clear();
      piece->answers.assign(1, {});
      piece->answers[0].tag = slot;
      piece->answers[0].forced = written[slot++].tokens;
      piece->answers[0].top_logprobs = kTinyVocab;
      if (piece->below.empty()) break;
    }
    EngineOptions options;
    options.one_by_one = true;
    Engine engine(model_, options);
    const AnswersByTag answers = RunAll(engine, {plain});
    std::vector<std::vector<std::vector<double>>> all;
    for (size_t n = 0; n < slot; ++n) {
      auto& steps = all.emplace_back();
      for (const std::vector<ScoredToken>& top : answers.at(n).top) {
        auto& row = steps.emplace_back(kTinyVocab, -std::numeric_limits<double>::infinity());
        for (const ScoredToken& token : top) row[static_cast<size_t>(token.token)] = token.logprob;
      }
    }
    return all;
  }

  // The rule of panel.h, said once more: log-softmax, plausible tokens, abstention, no contrast.
  void ExpectRule(const PromptSegment& thing, double abstention) {
    Engine engine(model_, {});
    const AnswersByTag found = RunAll(engine, {thing});
    std::vector<Answer> written;
    for (const PromptSegment* piece = &thing.below[0].below[0];; piece = &piece->below.front()) {
      written.push_back(found.at(piece->answers[0].tag));
      if (piece->below.empty()) break;
    }
    std::vector<std::vector<std::vector<std::vector<double>>>> documents;
    for (size_t k = 0; k < thing.below.size(); ++k) {
      documents.push_back(OfDocument(thing, k, written));
    }
    for (size_t n = 0; n < written.size(); ++n) {
      std::vector<bool> votes;
      for (const auto& document : documents) {
        double null = 0.0;
        for (const size_t token : {3, 4, 5}) null += std::exp(document[n][0][token]);
        votes.push_back(abstention == 0.0 || null < abstention);
      }
      if (std::ranges::count(votes, true) == 0) votes.assign(votes.size(), true);
      silent_ += std::ranges::count(votes, false);
      for (size_t t = 0; t < written[n].tokens.size(); ++t) {
        double best = -std::numeric_limits<double>::infinity();
        size_t token = 0, expert = 0;
        for (size_t k = 0; k < documents.size(); ++k) {
          const std::vector<double>& row = documents[k][n][t];
          const double least = std::ranges::max(row) + std::log(0.1);
          for (size_t v = 0; votes[k] && v < row.size(); ++v) {
            if (row[v] < least || row[v] <= best) continue;
            best = row[v];
            token = v;
            expert = k;
          }
        }
        EXPECT_EQ(written[n].tokens[t], static_cast<TokenId>(token)) << n << " " << t;
        EXPECT_EQ(written[n].experts[t], static_cast<std::int32_t>(expert)) << n << " " << t;
      }
    }
  }

  std::int64_t PageBytes() const {
    const ModelConfig& config = model_->parts().config;
    return model_->parts().kernels->KvPageBytes(KvShapeOf(config));
  }

  static std::int64_t AllPages(const PromptSegment& segment) {
    std::int64_t pages = static_cast<std::int64_t>(segment.tokens.size()) / 16 + 1;
    if (!segment.answers.empty() || !segment.experts.empty()) pages *= 2;
    for (const PromptSegment& below : segment.below) pages += AllPages(below);
    return pages;
  }

  std::shared_ptr<Model> model_;
  std::mt19937 random_{77};
  std::uint64_t next_tag_ = 0;
  std::ptrdiff_t silent_ = 0;
};

TEST_F(SkeletonPanels, WriteWhatTheirDocumentsSayTogether) {
  for (const bool together : {true, false}) {
    for (const double abstention : {0.0, 0.02}) {
      SCOPED_TRACE(fmt::format("{} {}", together, abstention));
      ThingShape shape{{20, 75, 6}, 4, together};
      shape.abstention = abstention;
      ExpectRule(Thing(shape), abstention);
    }
  }
  EXPECT_GT(silent_, 0);
}

TEST_F(SkeletonPanels, TheReferenceAgrees) {
  Load({.family = "llama", .tied = true, .seed = 31}, "reference");
  ExpectRule(Thing({{4, 9}, 2}), 0.0);
}

TEST_F(SkeletonPanels, OneDocumentIsAPanelToo) { ExpectRule(Thing({{30}, 3}), 0.0); }

TEST_F(SkeletonPanels, HaveTheBitsThatTheyHaveAlone) {
  for (int round = 0; round < 2; ++round) {
    if (round == 1) Load({.family = "mistral", .head_dim = 20, .window = 40, .seed = 13});
    next_tag_ = 0;
    std::vector<PromptSegment> things;
    things.push_back(Thing({{20, 75, 6}, 5}));
    things.push_back(Thing({{9, 40}, 3, false}));
    things.push_back(Thing({{33, 12, 50}, 2, true, true}));
    things.push_back(Thing({{15}, 4}));
    things.push_back(things[0]);  // the same documents once more
    for (PromptSegment* piece = &things[4].below[0].below[0];; piece = &piece->below.front()) {
      piece->answers[0].tag += 1000;
      if (piece->below.empty()) break;
    }
    for (PromptSegment& document : things[4].below) {
      for (PromptSegment* piece = &document.below[0];; piece = &piece->below.front()) {
        for (ExpertRequest& expert : piece->experts) expert.tag += 1000;
        if (piece->below.empty()) break;
      }
    }
    std::int64_t pages = 0;
    for (const PromptSegment& thing : things) pages = std::max(pages, AllPages(thing));
    const AnswersByTag expected = Alone(things);
    for (const Strategy strategy : {Strategy::kFlat, Strategy::kPaged, Strategy::kStacked,
                                    Strategy::kTree, Strategy::kAuto}) {
      for (const int rows : {5, 7, 512}) {
        for (const bool tiny : {false, true}) {
          SCOPED_TRACE(fmt::format("{}, {} rows{}", StrategyName(strategy), rows,
                                   tiny ? ", tiny memory" : ""));
          EngineOptions options;
          options.strategy = strategy;
          options.batch_rows = rows;
          options.contexts_per_stack = options.questions_per_stack = 2;
          options.steps_ahead = rows == 7 ? 1 : 0;
          if (tiny) options.kv_memory = PageBytes() * (pages + 2);
          Engine engine(model_, options);
          ExpectSameAnswers(expected, RunAll(engine, things, rows == 7 ? 2 : -1));
          if (strategy == Strategy::kFlat || tiny) continue;
          ExpectSameAnswers(expected, RunAll(engine, things));  // over what is cached
          EXPECT_EQ(engine.receipt().kv_bytes_held, 0);
        }
      }
    }
  }
}

TEST_F(SkeletonPanels, GiveTheirMemoryBackAndAreComputedAgain) {
  std::vector<PromptSegment> things;
  for (int i = 0; i < 3; ++i) {
    things.push_back(Thing({{10, 14}, 3}));
    for (size_t k = 0; k < 2; ++k) {
      PromptSegment* piece = &things.back().below[k].below[0];
      auto position = static_cast<std::int32_t>(things.back().tokens.size() +
                                                things.back().below[k].tokens.size());
      for (;; piece = &piece->below.front()) {
        piece->tokens.resize(3, 7);
        piece->first_position = position;
        position += 43;
        for (AnswerRequest& value : piece->answers) {
          value.stop_tokens.clear();
          value.max_new = 40;
        }
        if (piece->below.empty()) break;
      }
    }
  }
  const AnswersByTag expected = Alone(things);
  EngineOptions options;
  options.strategy = Strategy::kTree;
  options.kv_memory = PageBytes() * 48;
  Engine engine(model_, options);
  ExpectSameAnswers(expected, RunAll(engine, things));
  EXPECT_GT(engine.receipt().preempted, 0);
  EXPECT_GT(engine.receipt().recomputed_tokens, 0);
}

TEST_F(SkeletonPanels, TheOrderOfDocumentsDoesNotMatter) {
  const PromptSegment thing = Thing({{20, 45, 6}, 4});
  PromptSegment turned = thing;
  std::ranges::reverse(turned.below);
  // The answers stand with the document that comes first.
  PromptSegment* first = &turned.below[0].below[0];
  PromptSegment* last = &turned.below[2].below[0];
  first->skeleton = true;
  last->skeleton = false;
  for (;; first = &first->below.front(), last = &last->below.front()) {
    std::swap(first->answers, last->answers);
    std::swap(first->experts, last->experts);
    if (first->below.empty()) break;
  }
  Engine engine(model_, {});
  const AnswersByTag forth = RunAll(engine, {thing}), back = RunAll(engine, {turned});
  ASSERT_EQ(forth.size(), back.size());
  for (const auto& [tag, answer] : forth) {
    EXPECT_EQ(answer.tokens, back.at(tag).tokens);
    EXPECT_EQ(answer.logprobs, back.at(tag).logprobs);
  }
}

TEST_F(SkeletonPanels, EndWhenTheyAreCancelled) {
  for (int steps = 0; steps < 10; ++steps) {
    next_tag_ = 0;
    Engine engine(model_, {});
    const RequestId id = engine.Submit(Thing({{20, 30, 8}, 5}));
    for (int i = 0; i < steps; ++i) engine.Step();
    engine.Cancel(id, 2);
    engine.Step();
    engine.Cancel(id, 0);
    size_t ends = 0;
    while (engine.Step()) ends += engine.TakeFinished().size();
    ends += engine.TakeFinished().size();
    EXPECT_EQ(ends, 5u);
    EXPECT_EQ(engine.receipt().kv_bytes_held, 0);
    EXPECT_EQ(engine.running(), 0);
  }
}

TEST_F(SkeletonPanels, RefusesWhatIsNone) {
  Engine engine(model_, {});
  const auto refused = [&](const std::function<void(PromptSegment&)>& spoil) {
    PromptSegment thing = Thing({{5, 9}, 3});
    spoil(thing);
    return ErrorMessage(ErrorKind::kInput, [&] { engine.Submit(thing); });
  };
  EXPECT_THAT(
      refused([](PromptSegment& thing) { thing.below[1].below[0].below[0].experts.clear(); }),
      HasSubstr("have 1 and 0 experts"));
  EXPECT_THAT(refused([](PromptSegment& thing) {
                thing.below[0].below[0].answers[0].panel.reset();
                thing.below[1].below[0].experts.clear();
              }),
              HasSubstr("all or none"));
  EXPECT_THAT(refused([](PromptSegment& thing) {
                std::swap(thing.below[1].below[0].experts,
                          thing.below[1].below[0].below[0].experts);
              }),
              HasSubstr("no piece below"));
  EXPECT_THAT(refused([](PromptSegment& thing) {
                PromptSegment& second = thing.below[1].below[0].below[0];
                second.first_position = *second.first_position - 1;
              }),
              HasSubstr("positions between them"));
  EXPECT_THAT(refused([](PromptSegment& thing) {
                for (PromptSegment* piece = &thing.below[0].below[0];;
                     piece = &piece->below.front()) {
                  piece->answers[0].panel->beta_rule = BetaRule::kExpert;
                  if (piece->below.empty()) break;
                }
              }),
              HasSubstr("without a prior"));
}

}  // namespace
}  // namespace banyan
