// Panels, skeletons and plain answers in one engine: each is what it is alone. They meet in the
// count of what runs at once, in a step's rows and logits, and where memory is taken back.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "engine/company_fixture.h"
#include "support/error_message.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;
using testing_support::AnswersAlone;
using testing_support::AnswersByTag;
using testing_support::Ask;
using testing_support::ErrorMessage;
using testing_support::ExpectSameAnswers;
using testing_support::PageBytes;
using testing_support::PanelOver;
using testing_support::Prompt;
using testing_support::RunAll;
using testing_support::SharedModel;
using testing_support::Tokens;

// Requests that read the same document. Every answer has a tag of its own.
class Company {
 public:
  explicit Company(std::uint32_t seed) : random_(seed) {}

  std::vector<PromptSegment> Requests(int count) {
    std::vector<PromptSegment> requests;
    for (int i = 0; i < count; ++i) {
      if (i % 3 == 0) requests.push_back(Skeleton());
      if (i % 3 == 1) requests.push_back(Panel());
      if (i % 3 == 2) requests.push_back(Prompt(Document(), {Ask(next_tag_++, 1 + Below(150))}));
    }
    return requests;
  }

  PromptSegment Skeleton() {
    PromptSegment root = Prompt(Document(), {});
    auto position = static_cast<std::int32_t>(root.tokens.size());
    PromptSegment* piece = &root;
    for (int left = 1 + Below(5); left > 0; --left) {
      piece = &piece->below.emplace_back();
      piece->tokens = Tokens(1 + Below(6), static_cast<std::uint32_t>(Below(3)));
      piece->first_position = position;
      piece->answers.push_back(Ask(next_tag_++, Below(40)));
      AnswerRequest& value = piece->answers.front();
      if (Below(2) == 0) value.stop_tokens = Tokens(40, 9);
      if (Below(4) == 0) value.sampling.temperature = 1.0f;
      position += static_cast<std::int32_t>(piece->tokens.size()) + value.max_new;
    }
    root.below.front().skeleton = true;
    return root;
  }

  PromptSegment Panel() {
    std::vector<TokenId> system = Document();
    const std::vector<TokenId> question = Tokens(1 + Below(8), 77);
    std::vector<std::vector<TokenId>> documents;
    for (int experts = 1 + Below(4); experts > 0; --experts) {
      documents.push_back(Tokens(Below(30), static_cast<std::uint32_t>(Below(5))));
    }
    AnswerRequest answer = Ask(next_tag_++, 1 + Below(120));
    answer.panel = PanelOptions();
    return PanelOver(std::move(system), documents, question, answer, [&](size_t) {
      return ExpertRequest{answer.tag, 0.3};
    });
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }
  std::vector<TokenId> Document() {
    return Tokens(20 + 15 * Below(2), static_cast<std::uint32_t>(Below(2)));
  }

  std::mt19937 random_;
  std::uint64_t next_tag_ = 0;
};

TEST(MixedCompany, EveryAnswerIsTheSameAlone) {
  std::int64_t preempted = 0;
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    const std::vector<PromptSegment> requests = Company(seed).Requests(12);
    const AnswersByTag expected = AnswersAlone(requests);
    for (const Strategy strategy : {Strategy::kFlat, Strategy::kPaged, Strategy::kStacked,
                                    Strategy::kTree, Strategy::kAuto}) {
      for (const int pages : {0, strategy == Strategy::kFlat ? 72 : 58}) {
        for (const int streams : {0, 3}) {
          SCOPED_TRACE(fmt::format("{}, seed {}, {} pages, {} streams", StrategyName(strategy),
                                   seed, pages, streams));
          EngineOptions options;
          options.strategy = strategy;
          options.kv_memory = pages * PageBytes();
          options.batch_rows = pages > 0 ? 24 : 0;
          options.max_streams = streams;
          options.steps_ahead = seed % 2 == 0 ? 1 : 0;
          Engine engine(SharedModel(), options);
          ExpectSameAnswers(expected, RunAll(engine, requests, streams > 0 ? 3 : -1));
          if (::testing::Test::HasFailure()) return;
          EXPECT_EQ(engine.receipt().kv_bytes_held, 0);
          preempted += engine.receipt().preempted;
        }
      }
    }
  }
  EXPECT_GT(preempted, 3);  // otherwise memory was no test
}

TEST(MixedCompany, ASkeletonWithPartsOfAPanelIsRefused) {
  Engine engine(SharedModel(), {});
  PromptSegment with_panel = Company(1).Skeleton();
  with_panel.below.front().answers.front().panel = PanelOptions();
  EXPECT_THAT(ErrorMessage(ErrorKind::kInput, [&] { engine.Submit(with_panel); }),
              HasSubstr("has no experts"));
  Company company(2);
  PromptSegment with_expert = company.Panel();
  const std::uint64_t tag = with_expert.below.back().answers.front().tag;
  with_expert.below.push_back(company.Skeleton().below.front());
  // The whole skeleton further on: its own positions, from the end of this prompt.
  PromptSegment* piece = &with_expert.below.back();
  const std::int32_t shift =
      static_cast<std::int32_t>(with_expert.tokens.size()) - piece->first_position.value_or(0);
  for (;; piece = &piece->below.front()) {
    if (piece->first_position) *piece->first_position += shift;
    if (piece->below.empty()) break;
  }
  with_expert.below.back().experts.push_back({tag, 0.5});
  EXPECT_THAT(ErrorMessage(ErrorKind::kInput, [&] { engine.Submit(with_expert); }),
              HasSubstr("a piece of a skeleton is an expert of the answer"));
}

}  // namespace
}  // namespace banyan
