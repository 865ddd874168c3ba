#include "tasks/score/extract_compare.h"

#include <gtest/gtest.h>

namespace banyan {
namespace {

struct CompareCase {
  const char* value;
  const char* gold;
  const char* type;
  SlotOutcome outcome;
  double share = 0.0;  // of an incorrect one
};

void PrintTo(const CompareCase& one, std::ostream* out) {
  *out << one.value << " for " << one.gold << " as " << one.type;
}

class JudgeSlotTest : public testing::TestWithParam<CompareCase> {};

TEST_P(JudgeSlotTest, JudgesByType) {
  const CompareCase& one = GetParam();
  const SlotJudgement judged = JudgeSlot(Json::parse(one.value), Json::parse(one.gold), one.type);
  EXPECT_EQ(judged.outcome, one.outcome);
  if (one.outcome == SlotOutcome::kIncorrect) {
    EXPECT_NEAR(judged.share, one.share, 1e-12);
  }
}

constexpr SlotOutcome kRight = SlotOutcome::kCorrect, kWrong = SlotOutcome::kIncorrect;

INSTANTIATE_TEST_SUITE_P(
    Nulls, JudgeSlotTest,
    testing::Values(CompareCase{"null", "null", "text", SlotOutcome::kCorrectNull},
                    CompareCase{"null", "[]", "list", SlotOutcome::kCorrectNull},
                    CompareCase{"0", "null", "number", SlotOutcome::kHallucinated},
                    CompareCase{"false", "null", "boolean", SlotOutcome::kHallucinated},
                    CompareCase{"null", "0", "number", SlotOutcome::kMissing},
                    CompareCase{"null", "false", "boolean", SlotOutcome::kMissing}));

INSTANTIATE_TEST_SUITE_P(
    Texts, JudgeSlotTest,
    testing::Values(CompareCase{R"("the SONY!")", R"("Sony")", "text", kRight},
                    CompareCase{R"("lg")", R"(["Sony","LG"])", "text", kRight},
                    CompareCase{R"("Bean Barrow")", R"("Bean & Barrow")", "text", kRight},
                    CompareCase{R"("ÉCOLE\u00a0Zola")", R"("école Zola")", "text", kRight},
                    // One word in common: 2·1 / (2 + 1).
                    CompareCase{R"("Hotel Almaviva")", R"("Almaviva")", "text", kWrong, 2.0 / 3},
                    CompareCase{R"("red red")", R"("red")", "text", kWrong, 2.0 / 3},
                    CompareCase{R"("Rome")", R"("Verona")", "text", kWrong, 0.0},
                    // A text of digits is a number only against a number.
                    CompareCase{R"("007")", R"("7")", "text", kWrong, 0.0},
                    CompareCase{R"("2.50")", "2.5", "text", kRight}));

INSTANTIATE_TEST_SUITE_P(Numbers, JudgeSlotTest,
                         testing::Values(CompareCase{"12.0", "12", "number", kRight},
                                         CompareCase{"46.00000000000001", "46", "number", kRight},
                                         CompareCase{"46.001", "46", "number", kWrong},
                                         CompareCase{"1e3", "1000", "integer", kRight},
                                         CompareCase{"-3", "3", "integer", kWrong},
                                         CompareCase{R"("12")", "12", "number", kRight},
                                         CompareCase{R"("12 kg")", "12", "number", kWrong},
                                         CompareCase{"true", "1", "number", kWrong},
                                         CompareCase{"5", "[4, 5]", "number", kRight}));

INSTANTIATE_TEST_SUITE_P(
    ExactTypes, JudgeSlotTest,
    testing::Values(CompareCase{"true", "true", "boolean", kRight},
                    CompareCase{R"("true")", "true", "boolean", kWrong},
                    CompareCase{"false", "true", "boolean", kWrong},
                    CompareCase{R"("2024-05-31")", R"("2024-05-31")", "date", kRight},
                    CompareCase{R"("20240531")", R"("2024-05-31")", "date", kWrong},
                    CompareCase{R"("C")", R"("C++")", "enum", kWrong},
                    CompareCase{R"("C++")", R"("C++")", "enum", kRight}));

INSTANTIATE_TEST_SUITE_P(
    Lists, JudgeSlotTest,
    testing::Values(CompareCase{R"(["b","A","a"])", R"(["a","b"])", "list", kRight},
                    // One item in common: 2·1 / (2 + 1).
                    CompareCase{R"(["a"])", R"(["a","b"])", "list", kWrong, 2.0 / 3},
                    CompareCase{R"(["c"])", R"(["a","b"])", "list", kWrong, 0.0},
                    CompareCase{"[1, 2.0]", "[2, 1]", "list", kRight},
                    // A single spelling is not the list.
                    CompareCase{R"("a")", R"(["a","b"])", "list", kWrong, 2.0 / 3},
                    CompareCase{R"(["a","b"])", R"(["b","a"])", "text", kRight},
                    CompareCase{R"(["a"])", R"("a")", "text", kWrong, 0.0}));

INSTANTIATE_TEST_SUITE_P(
    Objects, JudgeSlotTest,
    testing::Values(CompareCase{R"({"b": 2.0, "a": "X", "c": null})", R"({"a": "x", "b": 2})",
                                "object", kRight},
                    // One member in common: 2·1 / (2 + 2).
                    CompareCase{R"({"a": "x", "b": 3})", R"({"a": "x", "b": 2})", "object", kWrong,
                                0.5},
                    CompareCase{R"([{"a": "y"}, {"a": "x", "n": 1.0}])",
                                R"([{"n": 1, "a": "x"}, {"a": "y"}])", "list", kRight},
                    CompareCase{R"([{"a": "x", "n": 1}])", R"([{"a": "x", "n": 1}, {"a": "y"}])",
                                "list", kWrong, 2.0 / 3},
                    CompareCase{R"({"a": "x"})", R"("x")", "text", kWrong, 0.0}));

TEST(SlotTypeTest, IsThatOfTheSchema) {
  const ExtractSchema schema = ParseExtractSchema(R"({"attributes": [
      {"name": "t"}, {"name": "n", "type": "number"}, {"name": "i", "type": "integer", "nullable": false},
      {"name": "b", "type": "boolean"}, {"name": "d", "type": "date"},
      {"name": "e", "type": "enum", "values": ["x", "y"]}, {"name": "l", "type": "list", "of": "number"},
      {"name": "u", "type": "number", "units": ["kg", "g"]}]})",
                                                  "s.json");
  std::vector<std::string> types;
  for (const ExtractAttribute& one : schema.categories.front().attributes) {
    types.push_back(SlotTypeOf(one));
  }
  EXPECT_EQ(types, (std::vector<std::string>{"text", "number", "integer", "boolean", "date", "enum",
                                             "list", "text"}));
}

TEST(SlotTypeTest, IsThatOfAJsonSchema) {
  const ExtractSchema schema = ParseExtractSchema(R"({"properties": {
      "a": {"type": ["integer", "null"]}, "b": {"type": "string", "format": "date"},
      "c": {"enum": ["x", null]}, "d": {"type": "array", "items": {"type": "string"}},
      "e": {"oneOf": [{"type": "null"}, {"type": "boolean"}]}}, "required": ["a", "b"]})",
                                                  "s.json");
  std::vector<std::string> types;
  for (const ExtractAttribute& one : schema.categories.front().attributes) {
    types.push_back(SlotTypeOf(one));
  }
  EXPECT_EQ(types, (std::vector<std::string>{"integer", "date", "enum", "list", "boolean"}));
}

TEST(SlotTypeTest, IsGuessedFromRightValues) {
  EXPECT_EQ(GuessSlotType(Json(2.5)), "number");
  EXPECT_EQ(GuessSlotType(Json(true)), "boolean");
  EXPECT_EQ(GuessSlotType(Json("2024-05-31")), "date");
  EXPECT_EQ(GuessSlotType(Json("2024-05-3x")), "text");
  EXPECT_EQ(GuessSlotType(Json::parse(R"(["Sony","SONY"])")), "text");
  EXPECT_EQ(GuessSlotType(Json::parse("[4, 5]")), "number");
}

}  // namespace
}  // namespace banyan
