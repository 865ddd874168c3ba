// One record alone, with answers that the test gives.
#include "tasks/job/record_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tasks/job/record_work_fixture.h"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_support::EndEvent;
using testing_support::FakeAnswer;
using testing_support::FakeWork;
using testing_support::HeardEvents;
using testing_support::TextEvent;

constexpr std::uint64_t kTagLimit = std::uint64_t{1} << kWorkTagBits;

std::uint64_t Tag(std::uint64_t record, std::uint64_t work_tag) {
  return record * kTagLimit + work_tag;
}

// Submits the round's prompts; their tags.
std::vector<std::uint64_t> SubmitAll(RecordRun& run) {
  std::vector<std::uint64_t> tags;
  for (const RecordPrompt& prompt : run.TakePrompts()) {
    EXPECT_EQ(prompt.answers, 1);
    tags.push_back(prompt.tree.answers.at(0).tag);
    EXPECT_FALSE(run.Submitted());
  }
  return tags;
}

std::vector<std::string> AnswersOf(std::vector<OutputRow> rows) {
  std::vector<std::string> answers;
  for (const OutputRow& row : rows) {
    answers.push_back(row.fields.at(row.error ? "error" : "answer").get<std::string>());
  }
  return answers;
}

TEST(RecordRun, AsksInRoundsAndEachEndsOnce) {
  RecordRun run(3);
  run.Start(std::make_unique<FakeWork>(FakeWork::Rounds{{{0, 0}, {1, 1}}, {{2, 0}}}));
  EXPECT_FALSE(run.done());
  EXPECT_THAT(SubmitAll(run), ElementsAre(Tag(3, 0), Tag(3, 1)));
  EXPECT_EQ(run.answered_rows(), 0);
  EXPECT_FALSE(run.Receive(EndEvent(Tag(3, 1), "b")));
  EXPECT_EQ(run.answered_rows(), 1);
  EXPECT_TRUE(run.Receive(EndEvent(Tag(3, 0), "a")));
  run.Digest();
  EXPECT_FALSE(run.done());
  EXPECT_EQ(run.answered_rows(), 1);  // the other is asked about again
  EXPECT_THAT(SubmitAll(run), ElementsAre(Tag(3, 2)));
  EXPECT_TRUE(run.Receive(EndEvent(Tag(3, 2), "c")));
  run.Digest();
  EXPECT_TRUE(run.done());
  EXPECT_EQ(run.answered_rows(), 2);
  EXPECT_THAT(run.TakePrompts(), IsEmpty());
  EXPECT_THAT(AnswersOf(run.TakeRows()), ElementsAre("ac", "b"));
}

// Another thread may be handing over answers before all prompts are with the engine.
TEST(RecordRun, ARoundIsNotOverBeforeAllIsSubmitted) {
  RecordRun run(0);
  run.Start(std::make_unique<FakeWork>(FakeWork::Rounds{{{0, 0}, {1, 1}}}));
  EXPECT_EQ(run.TakePrompts().size(), 2u);
  EXPECT_FALSE(run.Submitted());
  EXPECT_FALSE(run.Receive(EndEvent(0, "a")));
  EXPECT_FALSE(run.Receive(EndEvent(1, "b")));
  EXPECT_TRUE(run.Submitted());
  run.Digest();
  EXPECT_THAT(AnswersOf(run.TakeRows()), ElementsAre("a", "b"));
}

TEST(RecordRun, GivesEveryRowAsSoonAsItCanBeMade) {
  HeardEvents listener;
  RecordRun run(7, {}, &listener);
  run.Start(std::make_unique<FakeWork>(FakeWork::Rounds{{{0, 0}, {1, 1}, {2, 2}}, {{3, 1}}}));
  EXPECT_THAT(listener.New(), ElementsAre("asks 7: 3"));
  SubmitAll(run);
  for (const std::uint64_t tag : {2u, 1u}) {
    EXPECT_FALSE(run.Receive(EndEvent(Tag(7, tag), fmt::format("a{}", tag))));
    run.Digest();
  }
  EXPECT_THAT(listener.New(), ElementsAre("row 7.2: a2|"));
  EXPECT_TRUE(run.Receive(EndEvent(Tag(7, 0), "a0")));
  run.Digest();
  EXPECT_THAT(listener.New(), ElementsAre("row 7.0: a0|", "asks 7: 1"));
  SubmitAll(run);
  EXPECT_TRUE(run.Receive(EndEvent(Tag(7, 3), "b")));
  run.Digest();
  EXPECT_THAT(listener.New(), ElementsAre("row 7.1: a1b|", "done 7"));
}

TEST(RecordRun, TextIsHeardAsItComesAndNotTwice) {
  HeardEvents listener;
  RecordRun run(0, {.adapter = "", .most_tokens = 2, .stream = true}, &listener);
  run.Start(std::make_unique<FakeWork>(FakeWork::Rounds{{{0, 0, true}, {1, 1}, {2, 2, true}}}));
  const std::vector<RecordPrompt> prompts = run.TakePrompts();
  EXPECT_TRUE(prompts[0].tree.answers[0].stream);
  EXPECT_FALSE(prompts[1].tree.answers[0].stream);
  EXPECT_EQ(prompts[0].tree.answers[0].max_new, 2);
  for (size_t i = 0; i < prompts.size(); ++i) EXPECT_FALSE(run.Submitted());
  listener.New();
  for (const char* text : {" An", "na", ""}) {
    EXPECT_FALSE(run.Receive(TextEvent(0, text)));
    run.Digest();
  }
  EXPECT_THAT(listener.New(), ElementsAre("text 0.0: An", "text 0.0: na"));
  // It may still become null, and is a row in the end.
  EXPECT_FALSE(run.Receive(TextEvent(2, "nul")));
  EXPECT_FALSE(run.Receive(EndEvent(1, "hidden", "hidden")));
  EXPECT_FALSE(run.Receive(EndEvent(2, "nul", "")));
  EXPECT_TRUE(run.Receive(EndEvent(0, "Anna B", " B")));
  run.Digest();
  EXPECT_THAT(listener.New(), ElementsAre("row 0.1: hidden|hidden", "row 0.2: nul|nul",
                                          "text 0.0:  B", "row 0.0: Anna B|", "done 0"));
}

TEST(RecordRun, TextThatIsAskedAboutAgainIsNotShown) {
  HeardEvents listener;
  RecordRun run(0, {.adapter = "", .most_tokens = 9, .stream = true}, &listener);
  run.Start(std::make_unique<FakeWork>(FakeWork::Rounds{{{0, 0, true}}, {{1, 0, true}}}));
  SubmitAll(run);
  EXPECT_TRUE(run.Receive(EndEvent(0, "", "nu")));
  run.Digest();
  SubmitAll(run);
  EXPECT_TRUE(run.Receive(EndEvent(1, "lonely", "lonely")));
  run.Digest();
  EXPECT_THAT(listener.New(), ElementsAre("asks 0: 1", "asks 0: 1", "text 0.0: lonely",
                                          "row 0.0: lonely|", "done 0"));
}

// One prompt was asked, the second is refused, the third is asked: the answers of the others still
// come, and nothing more is asked.
TEST(RecordRun, ARefusalInTheMiddleEndsTheRecordWhenAllIsThere) {
  HeardEvents listener;
  RecordRun run(5, {}, &listener);
  run.Start(std::make_unique<FakeWork>(FakeWork::Rounds{{{0, 0}, {1, 1}, {2, 2}}, {{3, 2}}}));
  const std::vector<RecordPrompt> prompts = run.TakePrompts();
  ASSERT_EQ(prompts.size(), 3u);
  EXPECT_FALSE(run.Submitted());
  EXPECT_FALSE(run.Receive(EndEvent(Tag(5, 0), "a")));
  EXPECT_FALSE(run.Refuse(prompts[1].answers, Error(ErrorKind::kLimit, "too much")));
  EXPECT_FALSE(run.Submitted());
  EXPECT_TRUE(run.Receive(EndEvent(Tag(5, 2), "c")));
  run.Digest();
  EXPECT_TRUE(run.done());
  EXPECT_FALSE(run.cancelled());
  EXPECT_EQ(run.answered_rows(), 3);
  EXPECT_THAT(listener.New(), ElementsAre("asks 5: 3", "row 5.0: too much|", "row 5.1: too much|",
                                          "row 5.2: too much|", "done 5"));
}

TEST(RecordRun, WhatIsRefusedAltogetherIsOverAtOnce) {
  RecordRun run(0);
  run.Start(std::make_unique<FakeWork>(FakeWork::Rounds{{{0, 0}}, {{1, 0}}}));
  EXPECT_EQ(run.TakePrompts().size(), 1u);
  EXPECT_TRUE(run.Refuse(1, Error(ErrorKind::kInput, "no such token")));
  run.Digest();
  EXPECT_TRUE(run.done());
  EXPECT_THAT(AnswersOf(run.TakeRows()), ElementsAre("no such token"));
}

TEST(RecordRun, ALaterRoundThatCannotBeMadeIsARefusal) {
  auto work = std::make_unique<FakeWork>(FakeWork::Rounds{{{0, 0}}, {{1, 0}}});
  work->fails_at = 1;
  RecordRun run(0);
  run.Start(std::move(work));
  SubmitAll(run);
  EXPECT_TRUE(run.Receive(EndEvent(0, "a")));
  run.Digest();
  EXPECT_TRUE(run.done());
  EXPECT_THAT(AnswersOf(run.TakeRows()), ElementsAre("round 1 fails"));
  auto first = std::make_unique<FakeWork>(FakeWork::Rounds{{{0, 0}}});
  first->fails_at = 0;
  EXPECT_THROW(RecordRun(1).Start(std::move(first)), Error);
}

TEST(RecordRun, AnswersThatAreCancelledBeforeAndAfterTheirFirstToken) {
  HeardEvents listener;
  RecordRun run(0, {.adapter = "", .most_tokens = 9, .stream = true}, &listener);
  run.Start(std::make_unique<FakeWork>(
      FakeWork::Rounds{{{0, 0, true}, {1, 1, true}, {2, 2, true}, {3, 3}}, {{4, 3}}}));
  SubmitAll(run);
  EXPECT_FALSE(run.Receive(TextEvent(0, "Anna")));
  EXPECT_FALSE(run.Receive(TextEvent(1, "nul")));  // held
  EXPECT_FALSE(run.Receive(EndEvent(3, "whole")));
  run.Digest();
  run.Cancel();
  for (const std::uint64_t tag : {0u, 1u, 2u}) {
    EXPECT_EQ(run.Receive(EndEvent(tag, "", "", FinishReason::kCancelled)), tag == 2);
  }
  run.Digest();
  EXPECT_TRUE(run.done());
  // Of the last question an answer is there, but not the one that it would ask for next.
  EXPECT_THAT(listener.New(),
              ElementsAre("asks 0: 4", "text 0.0: Anna", "cancelled 0.0: ", "cancelled 0.1: nul",
                          "cancelled 0.2: ", "cancelled 0.3: ", "done 0"));
}

TEST(RecordRun, ARecordThatWasCancelledHasNoRows) {
  RecordRun run(0);
  run.Start(std::make_unique<FakeWork>(FakeWork::Rounds{{{0, 0}, {1, 1}}}));
  EXPECT_EQ(run.TakePrompts().size(), 2u);
  EXPECT_FALSE(run.Submitted());
  EXPECT_FALSE(run.Receive(EndEvent(0, "a")));
  EXPECT_TRUE(run.Withdraw(1));
  EXPECT_TRUE(run.cancelled());
  run.Digest();
  EXPECT_TRUE(run.done());
  EXPECT_THAT(run.TakeRows(), IsEmpty());
}

TEST(RecordRun, TagsAreUsedToTheirLimits) {
  constexpr std::uint64_t kLastRecord = (std::uint64_t{1} << 40) - 1;
  RecordRun run(kLastRecord);
  run.Start(std::make_unique<FakeWork>(FakeWork::Rounds{{{0, 0}, {kTagLimit - 1, 1}}}));
  const std::vector<std::uint64_t> tags = SubmitAll(run);
  EXPECT_THAT(tags, ElementsAre(kLastRecord << kWorkTagBits, ~std::uint64_t{0}));
  for (const std::uint64_t tag : tags) {
    EXPECT_EQ(RecordOfTag(tag), kLastRecord);
    EXPECT_EQ(run.Receive(EndEvent(tag, fmt::format("{}", WorkTagOf(tag)))), tag == tags[1]);
  }
  run.Digest();
  EXPECT_THAT(AnswersOf(run.TakeRows()), ElementsAre("0", fmt::format("{}", kTagLimit - 1)));
  EXPECT_DEATH(RecordRun(kLastRecord + 1), "record_run.cc");
}

// One more answer than there are tags would be an answer of the next record.
TEST(RecordRun, MoreAnswersThanTagsAreRefused) {
  const auto too_many = [](FakeWork::Rounds rounds) {
    return std::make_unique<FakeWork>(std::move(rounds));
  };
  EXPECT_THROW(RecordRun(0).Start(too_many({{{kTagLimit, 0}}})), Error);
  RecordRun later(0);
  later.Start(too_many({{{0, 0}}, {{1, 0}, {kTagLimit, 0}}}));
  SubmitAll(later);
  EXPECT_TRUE(later.Receive(EndEvent(0, "a")));
  later.Digest();
  EXPECT_TRUE(later.done());
  EXPECT_THAT(AnswersOf(later.TakeRows()),
              ElementsAre("the record asks for more than 16777216 answers"));
}

class ExpertWork : public FakeWork {
 public:
  ExpertWork() : FakeWork({{{6, 0}}}) {}
  std::vector<PromptSegment> NextPrompts() override {
    std::vector<PromptSegment> prompts = FakeWork::NextPrompts();
    for (PromptSegment& prompt : prompts) prompt.below.emplace_back().experts.push_back({6, 1.0});
    return prompts;
  }
};

TEST(RecordRun, ExpertsNameTheAnswerByItsPackedTag) {
  RecordRun run(2, {.adapter = "legal", .most_tokens = 9, .stream = false});
  run.Start(std::make_unique<ExpertWork>());
  const std::vector<RecordPrompt> prompts = run.TakePrompts();
  ASSERT_EQ(prompts.size(), 1u);
  EXPECT_EQ(prompts[0].tree.adapter, "legal");
  EXPECT_EQ(prompts[0].tree.answers[0].tag, Tag(2, 6));
  EXPECT_EQ(prompts[0].tree.below[0].experts[0].tag, Tag(2, 6));
}

}  // namespace
}  // namespace banyan
