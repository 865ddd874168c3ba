#include <gtest/gtest.h>
#include <fstream>

#include "base/json.h"
#include "program/score.h"
#include "support/temp_directory.h"
#include "tasks/score/score_rows.h"

namespace banyan {

namespace {

Json ScoreCases() {
  return Json::parse(std::ifstream(BANYAN_SOURCE_DIR "/eval/tests/score_cases.json"));
}

// What eval/metrics.py counts, which passes the same cases (eval/tests/test_metrics.py).
TEST(AnswerMatch, NormalFormsArePythons) {
  const Json cases = ScoreCases().at("normal");
  ASSERT_GE(cases.size(), 10u);
  for (const Json& one : cases) {
    EXPECT_EQ(NormalizedAnswer(one.at(0)), one.at(1).get<std::string>()) << one;
  }
}

TEST(AnswerMatch, ScoresArePythons) {
  const testing_support::TempDirectory directory;
  const std::string gold = (directory.path() / "gold.jsonl").string();
  const std::string rows = (directory.path() / "rows.jsonl").string();
  const Json cases = ScoreCases().at("answers");
  ASSERT_GE(cases.size(), 20u);
  for (const Json& one : cases) {
    Json question = one.at("question");
    question["id"] = 1;
    std::ofstream(gold) << DumpJson(question) << "\n";
    const Json row = {{"id", 1}, {"question_id", 1}, {"answer", one.at("answer")}};
    std::ofstream(rows) << DumpJson(row) << "\n";
    const AskScore score = ScoreAsk(gold, rows, 0);
    EXPECT_DOUBLE_EQ(score.exact, one.at("exact").get<double>()) << one;
    EXPECT_DOUBLE_EQ(score.f1, one.at("f1").get<double>()) << one;
  }
}

}  // namespace

}  // namespace banyan
