// Answers as rows, with answers that are made up: what the engine gave is not the question here.
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "banyan/error.h"
#include "base/work_budget.h"
#include "support/byte_model.h"
#include "tasks/ask/ask_task.h"

namespace banyan {
namespace {

// The rows of one question whose samples say these texts.
std::vector<OutputRow> RowsOf(const AskOptions& options,
                              const std::vector<std::vector<TokenId>>& samples) {
  const std::shared_ptr<Model> model = testing_support::SharedModel();
  AskTask task(model, options);
  InputRow row;
  row.file = "in.jsonl";
  row.line = 3;
  row.value = Json{{"id", "a"}, {"context", "c"}, {"question", "q"}};
  const std::unique_ptr<RecordWork> work = task.Start(row);
  EXPECT_EQ(work->NextPrompts().size(), 1u);
  for (size_t i = 0; i < samples.size(); ++i) {
    Answer answer;
    answer.tag = i;
    answer.finish = FinishReason::kLength;
    answer.tokens = samples[i];
    answer.logprobs.assign(samples[i].size(), -1.0f);
    work->Take(std::move(answer));
  }
  return work->Rows();
}

std::vector<TokenId> TokensOf(const std::string& text) {
  return testing_support::SharedModel()->text()->Encode(text, false, false);
}

AskOptions Sampled(int samples) {
  AskOptions options;
  options.instruction = "";
  options.max_new = 8;
  options.samples = samples;
  options.sampling.temperature = samples > 1 ? 1.0f : 0.0f;
  return options;
}

TEST(AskRows, VotesAreOnTheAnswerAfterTheThoughts) {
  AskOptions options = Sampled(5);
  options.vote = true;
  const std::vector<std::vector<TokenId>> samples = {
      TokensOf("<think>first</think>Rome"), TokensOf("Rome, I think"),
      TokensOf("<think>second</think> Paris."), TokensOf("third</think>\nparis"),
      TokensOf("<think>no end")};
  options.thinking = true;
  const auto row = RowsOf(options, samples).at(0).fields;
  EXPECT_EQ(row["answer"], "Paris.");
  EXPECT_EQ(row["votes"], 2);
  EXPECT_EQ(row["thinking"], "second");
  EXPECT_EQ(row["samples"][0]["answer"], "Rome");
  EXPECT_EQ(row["samples"][0]["thinking"], "first");
  EXPECT_EQ(row["samples"][3]["answer"], "paris");
  EXPECT_FALSE(row["samples"][1].contains("thinking"));
  EXPECT_EQ(row["samples"][4]["answer"], "<think>no end");
  options.thinking = false;
  EXPECT_EQ(RowsOf(options, samples).at(0).fields["votes"], 1);
}

// Padded vocabularies: the model has more tokens than the tokenizer.
TEST(AskRows, TokensThatTheTokenizerDoesNotHaveSayNothing) {
  std::vector<TokenId> tokens = TokensOf("Rome");
  tokens.insert(tokens.begin() + 2, {5000, -1, 1 << 30});
  AskOptions options = Sampled(1);
  options.token_ids = true;
  const OutputRow row = RowsOf(options, {tokens}).at(0);
  EXPECT_FALSE(row.error);
  EXPECT_EQ(row.fields["answer"], "Rome");
  EXPECT_EQ(row.fields["tokens"], 7);
  EXPECT_EQ(row.fields["token_ids"][2], 5000);
}

TEST(AskRows, WhatWasThrownIsTheRowsProblem) {
  EXPECT_EQ(ProblemOf(Error(ErrorKind::kLimit, "why")).kind, ErrorKind::kLimit);
  EXPECT_EQ(ProblemOf(std::bad_alloc()).kind, ErrorKind::kLimit);
  EXPECT_EQ(ProblemOf(std::runtime_error("why")).message, "why");
  EXPECT_THROW(ProblemOf(WorkStopped(WorkStopped::Why::kTime)), WorkStopped);  // no fault of a row
}

}  // namespace
}  // namespace banyan
