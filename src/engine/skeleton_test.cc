// Skeletons: values that are written together have the bits of their skeleton alone, whatever the
// strategy, the batch, the budget and the company; isolated ones have those of their slot alone.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using testing_support::ExpectSameAnswer;
using testing_support::ExpectSameAnswers;
using testing_support::RunAll;

constexpr int kVocab = 200;

class Skeletons : public ::testing::Test {
 protected:
  void SetUp() override { Load({.family = "llama", .tied = true, .seed = 11}); }

  void Load(const testing_support::TinyShape& shape) {
    const testing_support::TempDirectory directory;
    LoadOptions options;
    options.model = testing_support::WriteTinyGguf(shape, directory.path() / "tiny.gguf").string();
    options.precision = "f32";
    options.threads = 1;
    model_ = Model::Load(options);
  }

  int Below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }

  std::vector<TokenId> RandomTokens(int count) {
    std::vector<TokenId> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(Below(kVocab));
    return tokens;
  }

  // Pieces on both sides of what a tail takes over; values of many lengths, some without a token,
  // some stopped early, some drawn, some forced.
  PromptSegment RandomTemplate(int pieces, std::int32_t position, bool together) {
    static constexpr int kLengths[] = {1, 2, 3, 5, 8, 15, 17, 40, 64, 65, 130};
    PromptSegment first;
    PromptSegment* piece = &first;
    for (int n = 0; n < pieces; ++n) {
      piece->tokens = RandomTokens(kLengths[Below(n % 3 == 0 ? 11 : 5)]);
      piece->first_position = position;
      AnswerRequest& value = piece->answers.emplace_back();
      value.tag = next_tag_++;
      value.question_key = static_cast<std::uint64_t>(n);
      value.max_new = Below(12);
      if (Below(2) == 0) value.stop_tokens = RandomTokens(kVocab / 6);
      if (Below(4) == 0) value.sampling.temperature = 1.0f;
      if (Below(6) == 0) value.forced = RandomTokens(1 + Below(9));
      if (Below(8) == 0) value.want_logits = true;
      const auto room =
          value.forced.empty() ? value.max_new : static_cast<int>(value.forced.size());
      position += static_cast<int>(piece->tokens.size()) + room + Below(2) * Below(5);
      if (n + 1 == pieces) break;
      piece = &piece->below.emplace_back();
    }
    first.skeleton = together;
    return first;
  }

  // An instruction with documents under it, each with a template or two, some of them equal.
  PromptSegment RandomRequest() {
    PromptSegment root;
    root.tokens = RandomTokens(1 + Below(150));
    for (int documents = 1 + Below(3); documents > 0; --documents) {
      PromptSegment& document = root.below.emplace_back();
      document.tokens = RandomTokens(1 + Below(180));
      const auto end = static_cast<std::int32_t>(root.tokens.size() + document.tokens.size());
      document.below.push_back(RandomTemplate(1 + Below(7), end, Below(4) > 0));
      if (Below(3) > 0) continue;
      PromptSegment again = document.below.front();
      for (PromptSegment* piece = &again;; piece = &piece->below.front()) {
        piece->answers.front().tag = next_tag_++;
        if (piece->below.empty()) break;
      }
      document.below.push_back(std::move(again));
    }
    return root;
  }

  // Every skeleton and every other answer by itself: the request without all the others.
  AnswersByTag Alone(const std::vector<PromptSegment>& requests) {
    EngineOptions options;
    options.strategy = Strategy::kFlat;
    options.one_by_one = true;
    options.steps_ahead = 0;
    AnswersByTag answers;
    for (const PromptSegment& request : requests) {
      for (const PromptSegment& document : request.below) {
        for (const PromptSegment& below : document.below) {
          Engine engine(model_, options);
          PromptSegment alone;
          alone.tokens = request.tokens;
          alone.below.emplace_back().tokens = document.tokens;
          alone.below[0].below.push_back(below);
          answers.merge(RunAll(engine, {alone}));
        }
      }
    }
    return answers;
  }

  std::int64_t PageBytes() const {
    const ModelConfig& config = model_->parts().config;
    return model_->parts().kernels->KvPageBytes(KvShapeOf(config));
  }

  // Pages of one path with all its tails.
  static std::int64_t Pages(const PromptSegment& segment) {
    const auto pages = [](std::int64_t tokens) { return (tokens + 15) / 16; };
    auto count = pages(static_cast<std::int64_t>(segment.tokens.size()));
    for (const AnswerRequest& answer : segment.answers) {
      const auto keys =
          std::max<std::int64_t>(answer.max_new, static_cast<std::int64_t>(answer.forced.size()));
      count += pages(static_cast<std::int64_t>(segment.tokens.size()) + keys);
    }
    std::int64_t most = 0;
    for (const PromptSegment& below : segment.below) most = std::max(most, Pages(below));
    return count + most;
  }

  std::shared_ptr<Model> model_;
  std::mt19937 random_{20};
  std::uint64_t next_tag_ = 0;
};

void ExpectWays(const std::shared_ptr<Model>& model, const std::vector<PromptSegment>& requests,
                const AnswersByTag& expected, std::int64_t tiny_memory) {
  for (const Strategy strategy :
       {Strategy::kFlat, Strategy::kPaged, Strategy::kStacked, Strategy::kTree, Strategy::kAuto}) {
    for (const int rows : {1, 7, 512}) {
      for (const bool tiny : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, {} rows{}", StrategyName(strategy), rows,
                                 tiny ? ", tiny memory" : ""));
        EngineOptions options;
        options.strategy = strategy;
        options.batch_rows = rows;
        options.contexts_per_stack = 2;
        options.questions_per_stack = 2;
        options.steps_ahead = rows == 7 ? 1 : 0;
        if (tiny) options.kv_memory = tiny_memory;
        Engine engine(model, options);
        ExpectSameAnswers(expected, RunAll(engine, requests, rows == 7 ? 2 : -1));
        if (strategy == Strategy::kFlat || tiny) continue;
        ExpectSameAnswers(expected, RunAll(engine, requests));  // over what is cached
        EXPECT_EQ(engine.receipt().kv_bytes_held, 0);
      }
    }
  }
}

TEST_F(Skeletons, HaveTheBitsThatTheyHaveAlone) {
  for (int round = 0; round < 2; ++round) {
    if (round == 1) Load({.family = "mistral", .head_dim = 20, .window = 40, .seed = 13});
    next_tag_ = 0;
    std::vector<PromptSegment> requests;
    std::int64_t pages = 0;
    for (int i = 0; i < 3; ++i) {
      requests.push_back(RandomRequest());
      pages = std::max(pages, Pages(requests.back()));
    }
    ExpectWays(model_, requests, Alone(requests), PageBytes() * (pages + 2));
  }
}

TEST_F(Skeletons, GiveTheirMemoryBackAndAreComputedAgain) {
  std::vector<PromptSegment> requests;
  for (int i = 0; i < 4; ++i) {
    PromptSegment& root = requests.emplace_back();
    root.tokens = RandomTokens(20);
    root.below.emplace_back().tokens = RandomTokens(10);
    PromptSegment first = RandomTemplate(3, 30, true);
    std::int32_t position = 30;
    for (PromptSegment* piece = &first;; piece = &piece->below.front()) {
      AnswerRequest& value = piece->answers.front();
      value.stop_tokens.clear();
      value.forced.clear();
      value.max_new = 40;
      piece->tokens.resize(3, 7);
      piece->first_position = position;
      position += 43;
      if (piece->below.empty()) break;
    }
    root.below[0].below.push_back(std::move(first));
  }
  const AnswersByTag expected = Alone(requests);
  EngineOptions options;
  options.strategy = Strategy::kTree;
  // One needs 2 + 1 + 3 + 9; two begin with 9 each and leave a page for each of six values.
  options.kv_memory = PageBytes() * 24;
  Engine engine(model_, options);
  ExpectSameAnswers(expected, RunAll(engine, requests));
  EXPECT_GT(engine.receipt().preempted, 0);
  EXPECT_GT(engine.receipt().recomputed_tokens, 0);
}

TEST_F(Skeletons, AnIsolatedValueIsTheSlotAlone) {
  PromptSegment root;
  root.tokens = RandomTokens(50);
  root.below.push_back(RandomTemplate(6, 50, /*together=*/false));
  Engine engine(model_, {});
  const AnswersByTag found = RunAll(engine, {root});
  for (std::uint64_t tag = 0; tag < 6; ++tag) {
    PromptSegment alone = root;
    PromptSegment* piece = &alone.below.front();
    for (std::uint64_t n = 0; n < tag; ++n) {
      piece->answers.clear();
      piece = &piece->below.front();
    }
    piece->below.clear();
    Engine other(model_, {});
    ExpectSameAnswer(RunAll(other, {alone}).at(tag), found.at(tag));
  }
}

// What makes a skeleton one: the first value is as if isolated, first tokens are, later tokens see
// the values above.
TEST_F(Skeletons, LaterValuesSeeEarlierOnes) {
  PromptSegment root;
  root.tokens = RandomTokens(30);
  PromptSegment* piece = &root;
  std::int32_t position = 30;
  for (std::uint64_t n = 0; n < 4; ++n) {
    piece = &piece->below.emplace_back();
    piece->tokens = RandomTokens(4);
    piece->first_position = position;
    position += 4 + 6;
    AnswerRequest& value = piece->answers.emplace_back();
    value.tag = n;
    value.max_new = 6;
  }
  Engine isolating(model_, {}), joining(model_, {});
  const AnswersByTag isolated = RunAll(isolating, {root});
  root.below.front().skeleton = true;
  const AnswersByTag together = RunAll(joining, {root});
  ExpectSameAnswer(isolated.at(0), together.at(0));
  for (std::uint64_t n = 1; n < 4; ++n) {
    EXPECT_EQ(isolated.at(n).logprobs.front(), together.at(n).logprobs.front());
    EXPECT_NE(isolated.at(n).logprobs, together.at(n).logprobs);
  }
}

TEST_F(Skeletons, AValueCanBeCancelledAndAllMemoryComesBack) {
  PromptSegment root;
  root.tokens = RandomTokens(30);
  root.below.push_back(RandomTemplate(6, 30, true));
  for (PromptSegment* piece = &root.below.front();; piece = &piece->below.front()) {
    piece->answers.front().stop_tokens.clear();
    if (piece->below.empty()) break;
  }
  for (int steps = 0; steps < 6; ++steps) {
    Engine engine(model_, {});
    const RequestId id = engine.Submit(root);
    for (int i = 0; i < steps; ++i) engine.Step();
    engine.Cancel(id, 2);
    engine.Step();
    engine.Cancel(id, 0);
    AnswersByTag ends;
    const auto take = [&] {
      for (Answer& answer : engine.TakeFinished()) {
        EXPECT_TRUE(ends.emplace(answer.tag, answer).second) << "ended twice";
      }
    };
    while (engine.Step()) take();
    take();
    EXPECT_EQ(ends.size(), 6u);
    EXPECT_EQ(engine.receipt().kv_bytes_held, 0);
    EXPECT_EQ(engine.running(), 0);
  }
}

TEST_F(Skeletons, RefusesWhatIsNone) {
  Engine engine(model_, {});
  const auto refused = [&](const std::function<void(PromptSegment&)>& spoil) {
    PromptSegment root;
    root.tokens = RandomTokens(5);
    root.below.push_back(RandomTemplate(3, 5, true));
    spoil(root.below.front());
    return ErrorMessage(ErrorKind::kInput, [&] { engine.Submit(root); });
  };
  EXPECT_THAT(refused([](PromptSegment& first) { first.answers.clear(); }),
              HasSubstr("one answer"));
  EXPECT_THAT(refused([](PromptSegment& first) { first.below.push_back(first.below.front()); }),
              HasSubstr("no more than one piece"));
  EXPECT_THAT(refused([](PromptSegment& first) { first.answers[0].max_new = 90; }),
              HasSubstr("the value before it needs"));
  EngineOptions options;
  options.strategy = Strategy::kSequential;
  Engine sequential(model_, options);
  PromptSegment root;
  root.tokens = RandomTokens(5);
  root.below.push_back(RandomTemplate(2, 5, true));
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { sequential.Submit(root); }),
              HasSubstr("sequential"));
}

}  // namespace
}  // namespace banyan
