#include "program/score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/error_message.h"
#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing_support::TempDirectory;

std::string Written(const TempDirectory& directory, const char* name, const std::string& text) {
  const auto path = directory.path() / name;
  std::ofstream(path) << text;
  return path.string();
}

// Multiple choice is answered with a text; the right one may be given as its letter.
TEST(AskScore, ALetterIsTheChoiceItStandsFor) {
  const TempDirectory directory;
  const std::string gold = Written(directory, "gold.jsonl", R"(
{"id":"a","questions":[{"id":"1","choices":["7:45","8:15"],"answers":["A"]}]}
{"id":"b","questions":[{"id":"2","choices":["7:45","8:15"],"answers":["b."]}]}
{"id":"c","questions":[{"id":"3","choices":["B","A"],"answers":["A"]}]}
{"id":"d","questions":[{"id":"4","choices":["7:45","8:15"],"answers":["C"]}]}
)");
  const std::string rows = Written(directory, "rows.jsonl", R"(
{"id":"a","question_id":"1","answer":"7:45"}
{"id":"b","question_id":"2","answer":"8:15"}
{"id":"c","question_id":"3","answer":"A"}
{"id":"d","question_id":"4","answer":"7:45"}
)");
  EXPECT_DOUBLE_EQ(ScoreAsk(gold, rows, 0).exact, 3.0 / 4.0);
}

TEST(AskScore, CountsAnswersNullsErrorsAndWhatIsMissing) {
  const TempDirectory directory;
  const std::string gold = Written(directory, "gold.jsonl", R"(
{"id":"a","questions":[{"id":"1","answers":["Ruth Hall"]},{"id":"2","answers":[]},{"answers":["1840"]}]}
{"id":"b","questions":[{"id":"1","answers":["barge"]},{"id":"2","choices":["yes","no"],"right":1}]}
{"id":"c","question_id":7,"answers":["x"]}
)");
  const std::string rows = Written(directory, "rows.jsonl", R"(
{"id":"a","question_id":"1","answer":"the Ruth","confidence":0.5}
{"id":"a","question_id":"2","answer":null,"confidence":0.9}
{"id":"a","question_id":3,"answer":null,"withheld":"1840","confidence":0.2}
{"id":"b","question_id":null,"error":{"kind":"limit"}}
)");
  const AskScore score = ScoreAsk(gold, rows, 50);
  EXPECT_EQ(score.documents, 3);
  EXPECT_EQ(score.questions, 6);
  EXPECT_EQ(score.errors, 2);
  EXPECT_EQ(score.missing, 1);
  EXPECT_EQ(score.known, 5);
  EXPECT_DOUBLE_EQ(score.exact, 1.0 / 6.0);
  EXPECT_DOUBLE_EQ(score.known_f1, (2.0 / 3.0) / 5.0);
  EXPECT_DOUBLE_EQ(score.denied, 1.0 / 5.0);
  EXPECT_DOUBLE_EQ(score.null_right, 1.0);
  ASSERT_EQ(score.confidences.size(), 2u);
  EXPECT_FALSE(score.confidences[0].right);
  EXPECT_TRUE(score.confidences[1].right);
  EXPECT_LE(score.exact_interval.low, score.exact);
  EXPECT_GE(score.exact_interval.high, score.exact);
  const AskScore nothing = ScoreOfAskNull(gold);
  EXPECT_DOUBLE_EQ(nothing.exact, 1.0 / 6.0);
  EXPECT_DOUBLE_EQ(nothing.denied, 1.0);
  EXPECT_THAT(AskScoresText({nothing, score}), ::testing::HasSubstr("| 6 | 0.167 ("));
  EXPECT_THAT(AskScoresJson({score}), ::testing::HasSubstr("\"calibration_error\":0.3,"));
}

TEST(AskScore, SaysWhichGoldRowIsWrong) {
  const TempDirectory directory;
  const std::string rows = Written(directory, "rows.jsonl", "{\"id\":1}\n");
  for (const auto& [row, expected] :
       {std::pair(R"({"id":4,"questions":[{"id":1}]})", "the row with id 4: expected 'answers'"),
        {R"({"id":4,"questions":["x"]})", "the row with id 4: a question is no object"},
        {R"({"id":4,"choices":["a"],"right":1})", "'right': expected the number of a choice"}}) {
    const std::string gold = Written(directory, "gold.jsonl", row);
    EXPECT_THAT(testing_support::ErrorMessage(ErrorKind::kInput, [&] { ScoreAsk(gold, rows); }),
                ::testing::HasSubstr(expected));
  }
}

}  // namespace
}  // namespace banyan
