#include "program/score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "support/error_message.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;

class ExtractScoreTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("banyan-score-") +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }
  ExtractScores Score(const std::string& gold, const std::string& output,
                      const std::string& schema = "", bool unlabelled_is_null = false) {
    return ScoreExtract({.gold = Write("gold.jsonl", gold),
                         .output = Write("out.jsonl", output),
                         .unlabelled_is_null = unlabelled_is_null,
                         .schema = schema,
                         .schema_name = "s.json"});
  }

  std::filesystem::path folder_;
};

// Three correct, one correct null, one incorrect, one missing, one hallucinated.
constexpr const char* kGold = R"({"id":1,"values":{"a":"x","b":2,"c":true,"d":null}}
{"id":2,"values":{"a":"big red cat","b":7,"d":null}}
)";
constexpr const char* kOutput = R"({"id":1,"values":{"a":"X","b":2.0,"c":true,"d":null}}
{"id":2,"values":{"a":"red cat","b":null,"d":"y","e":"z"}}
)";

TEST_F(ExtractScoreTest, ScoresFollowFromTheCounts) {
  const ExtractScores scores = Score(kGold, kOutput);
  const SlotCounts& all = scores.all;
  EXPECT_EQ(all.correct, 3);
  EXPECT_EQ(all.correct_null, 1);
  EXPECT_EQ(all.incorrect, 1);
  EXPECT_EQ(all.missing, 1);
  EXPECT_EQ(all.hallucinated, 1);
  EXPECT_EQ(scores.unlabelled, 1);
  EXPECT_DOUBLE_EQ(all.strict_precision(), 3.0 / 5);
  EXPECT_DOUBLE_EQ(all.strict_recall(), 3.0 / 5);
  EXPECT_DOUBLE_EQ(all.strict_f1(), 3.0 / 5);
  EXPECT_NEAR(all.partial_f1(), 3.8 / 5, 1e-12);  // "red cat" for "big red cat": 0.8
  EXPECT_DOUBLE_EQ(all.f1(), 4.0 / 6);
  EXPECT_DOUBLE_EQ(all.accuracy(), 4.0 / 7);
  EXPECT_EQ(scores.by_type.at("text").slots(), 4);
  EXPECT_EQ(scores.by_type.at("number").correct, 1);
  EXPECT_EQ(scores.by_type.at("boolean").correct, 1);
}

TEST_F(ExtractScoreTest, NullEverywhereIsTheBaseline) {
  const ExtractScores scores = Score(kGold, kOutput);
  EXPECT_EQ(scores.all_null.slots(), 7);
  EXPECT_EQ(scores.all_null.correct_null, 2);
  EXPECT_DOUBLE_EQ(scores.all_null.strict_f1(), 0.0);
  EXPECT_DOUBLE_EQ(scores.all_null.f1(), 2.0 * (2.0 / 7) / (1.0 + 2.0 / 7));
  // What a run of nulls really scores.
  const ExtractScores nulls = Score(kGold, "{\"id\":1,\"values\":{}}\n{\"id\":2,\"values\":{}}\n");
  EXPECT_DOUBLE_EQ(nulls.all.f1(), scores.all_null.f1());
  EXPECT_EQ(nulls.all.missing, scores.all_null.missing);
}

TEST_F(ExtractScoreTest, UnlabelledSlotsAsNullCountInStrictButNotInLabelled) {
  const ExtractScores scores = Score(kGold, kOutput, "", true);
  EXPECT_EQ(scores.all.hallucinated, 2);
  EXPECT_EQ(scores.labelled.hallucinated, 1);
  EXPECT_EQ(scores.all_null.correct_null, 3);
  EXPECT_EQ(scores.all_null_labelled.correct_null, 2);
  EXPECT_DOUBLE_EQ(scores.all.strict_precision(), 3.0 / 6);
  EXPECT_DOUBLE_EQ(scores.labelled.f1(), 4.0 / 6);
}

TEST_F(ExtractScoreTest, TheSchemaSaysWhatAListIsAndWhichSlotsThereAre) {
  const std::string gold =
      R"({"id":1,"category":"k","values":{"spelled":["a","b"],"all":["a","b"]}})";
  const std::string output = R"({"id":1,"values":{"spelled":"b","all":["a"]}})";
  const std::string schema = R"({"categories":{"k":{"attributes":[{"name":"spelled"},
      {"name":"all","type":"list","of":"text"},{"name":"more","type":"date"}]},
      "other":{"attributes":[{"name":"x"}]}}})";
  const ExtractScores scores = Score(gold, output, schema, true);
  EXPECT_EQ(scores.by_type.at("text").correct, 1);
  EXPECT_EQ(scores.by_type.at("list").incorrect, 1);
  EXPECT_NEAR(scores.by_type.at("list").partial_f1(), 2.0 / 3, 1e-12);
  EXPECT_EQ(scores.by_type.at("date").correct_null, 1);
  EXPECT_EQ(scores.by_category.at("k").slots(), 3);
  EXPECT_EQ(Score(gold, output, schema).unlabelled, 1);
}

TEST_F(ExtractScoreTest, ABadSchemaIsRefused) {
  EXPECT_THAT(testing_support::ErrorMessage(
                  ErrorKind::kUsage,
                  [&] { Score(kGold, kOutput, R"({"attributes":[{"name":"a","type":"x"}]})"); }),
              HasSubstr("/attributes/0/type"));
}

TEST_F(ExtractScoreTest, IntervalsHoldTheScoreAndAreTheSameEveryTime) {
  std::vector<DocumentCounts> documents;
  for (int i = 0; i < 40; ++i) {
    DocumentCounts one;
    for (int slot = 0; slot < 4; ++slot) {
      one.all.Add(slot < i % 5 ? SlotOutcome::kCorrect : SlotOutcome::kIncorrect);
    }
    one.labelled = one.all;
    documents.push_back(one);
  }
  SlotCounts sum;
  for (const DocumentCounts& one : documents) sum += one.all;
  const ScoreIntervals first = BootstrapIntervals(documents, 1000);
  EXPECT_LT(first.strict_f1.low, sum.strict_f1());
  EXPECT_GT(first.strict_f1.high, sum.strict_f1());
  // Shares of 0 to 4 of 4 in 40 documents: the mean's standard error is 0.354 / √40 = 0.056.
  EXPECT_NEAR(first.strict_f1.high - first.strict_f1.low, 2 * 1.96 * 0.056, 0.03);
  EXPECT_DOUBLE_EQ(BootstrapIntervals(documents, 1000).strict_f1.low, first.strict_f1.low);
  const ScoreInterval same = BootstrapDifference(documents, documents, 100);
  EXPECT_EQ(same.low, 0.0);
  EXPECT_EQ(same.high, 0.0);
  EXPECT_EQ(BootstrapIntervals({}, 10).f1.high, 0.0);
}

TEST_F(ExtractScoreTest, ConfidencesAreThoseOfTheRowsWhereTheyAreProbabilities) {
  const std::string gold = R"({"id":1,"values":{"a":"x","b":null,"c":"z"}})";
  const ExtractScores scores = Score(
      gold,
      R"({"id":1,"values":{"a":"x","b":null,"c":"y"},"confidence":{"a":0.9,"b":0.6,"c":null}})");
  ASSERT_EQ(scores.confidences.size(), 2u);
  EXPECT_TRUE(scores.confidences[0].right && scores.confidences[1].right);
  EXPECT_FALSE(scores.log_probabilities);
  const ExtractScores logs =
      Score(gold, R"({"id":1,"values":{"a":"x"},"confidence":{"a":0.0,"b":-0.5}})");
  EXPECT_TRUE(logs.confidences.empty());
  EXPECT_TRUE(logs.log_probabilities);
}

TEST_F(ExtractScoreTest, SpeedIsThatOfTheReceiptBesideTheOutput) {
  const std::string output = Write("values.jsonl", "");
  EXPECT_FALSE(SpeedFromReceipt(output).has_value());
  Write("values.jsonl.receipt.json", R"({"rows_this_run":50,"seconds":{"total":10.0}})");
  EXPECT_DOUBLE_EQ(SpeedFromReceipt(output).value(), 5.0);
  Write("values.jsonl.receipt.json", R"({"rows":50})");
  EXPECT_THAT(
      testing_support::ErrorMessage(ErrorKind::kFormat, [&] { (void)SpeedFromReceipt(output); }),
      HasSubstr("expected a receipt"));
}

TEST_F(ExtractScoreTest, RunsAreRowsOfOneTable) {
  ScoredRun one{"one", Score(kGold, kOutput)};
  one.scores.documents_per_second = 0.5;
  const ScoredRun two{"two", Score(kGold, "{\"id\":1,\"values\":{\"a\":\"x\"}}\n")};
  const std::string text = RunsText({one, two}, {.rule = "skipped", .resamples = 0});
  EXPECT_THAT(text, HasSubstr("2 documents; unlabelled slots: skipped; 1 without a row in two\n"));
  EXPECT_THAT(text,
              HasSubstr("| one | 0.6000 | 0.6000 | 0.6000 | 0.7600 | 0.6667 | 0.6667 | 0.5714 "
                        "| 0.5 |\n"));
  EXPECT_THAT(text, HasSubstr("| null everywhere | 0.0000 | 0.0000 | 0.0000 | 0.0000 | 0.4444 | "));
  EXPECT_THAT(text, HasSubstr("| two | -0.2"));
  const Json json = Json::parse(RunsJson({one, two}, {.rule = "skipped", .resamples = 10}));
  EXPECT_EQ(json["runs"][0]["all"]["correct"], 3);
  EXPECT_EQ(json["runs"][0]["documents_per_second"], 0.5);
  EXPECT_EQ(json["runs"][0]["types"]["boolean"]["slots"], 1);
  EXPECT_TRUE(json["runs"][1]["strict_f1_difference"] < 0);
  EXPECT_EQ(json["runs"][1]["intervals"]["resamples"], 10);
}

}  // namespace
}  // namespace banyan
