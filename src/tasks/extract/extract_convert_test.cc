// Written texts as values of their attributes' types; parts of a document as one.
#include "tasks/extract/extract_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tasks/extract/extract_value.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;
using OrderedJson = nlohmann::ordered_json;

ExtractAttribute Attribute(const std::string& json) {
  return ParseExtractSchema(R"({"attributes":[)" + json + "]}", "s.json")
      .categories[0]
      .attributes[0];
}

TypedValue Convert(const std::string& attribute, const OrderedJson& written) {
  return ConvertWritten(Attribute(attribute), written, nullptr, {});
}

TEST(ConvertWrittenTest, FollowsTheAttribute) {
  EXPECT_EQ(Convert(R"({"name":"a","type":"number"})", "60 EUR").value, 60);
  EXPECT_EQ(Convert(R"({"name":"a","type":"number"})", "60 EUR").unit, "EUR");
  EXPECT_EQ(Convert(R"({"name":"a","type":"number","unit":"g"})", "1.35 kg").value, 1350);
  EXPECT_EQ(Convert(R"({"name":"a","type":"number","units":["g","kg"]})", "1,35kg").value,
            "1.35 kg");
  EXPECT_EQ(Convert(R"({"name":"a","type":"date"})", "31. Mai 2024").value, "2024-05-31");
  EXPECT_EQ(Convert(R"({"name":"a","type":"boolean"})", "yes").value, true);
  EXPECT_EQ(Convert(R"({"name":"a","type":"boolean"})", false).value, false);
  EXPECT_EQ(
      Convert(R"({"name":"a","type":"list","of":"integer"})", {"2", "many", "two", "3"}).value,
      OrderedJson::array({2, 3}));
  EXPECT_TRUE(Convert(R"({"name":"a"})", nullptr).value.is_null());
}

TEST(ConvertWrittenTest, WhatCannotBeIsNullWithAReason) {
  const TypedValue seats = Convert(R"({"name":"a","type":"integer"})", "Total");
  EXPECT_TRUE(seats.value.is_null());
  EXPECT_THAT(seats.reason, HasSubstr("'Total'"));
  EXPECT_THAT(Convert(R"({"name":"a","type":"number","unit":"kg"})", "3 m").reason,
              HasSubstr("3 m"));
  EXPECT_THAT(Convert(R"({"name":"a","type":"number","units":["g"]})", "3").reason,
              HasSubstr("has no unit"));
}

TEST(HintsTest, OneClearDateDecidesTheOthers) {
  EXPECT_FALSE(HintsOf("on 03/04/2024").month_first);
  EXPECT_TRUE(HintsOf("on 03/04/2024, not 05/31/2024").month_first);
  EXPECT_FALSE(HintsOf("31/05/2024 and 05/31/2024").month_first);
  EXPECT_FALSE(HintsOf("1/2 and 13/14/15 and /").month_first);
}

TEST(HintsTest, OneClearDecimalDecidesTheOthers) {
  EXPECT_EQ(HintsOf("1.480 kg zu 12,50 EUR, am 31.05.2024 um 18.30 Uhr").decimal_mark,
            DecimalMark::kComma);
  EXPECT_EQ(HintsOf("1.480 kg for £12.50").decimal_mark, DecimalMark::kPoint);
  EXPECT_EQ(HintsOf("1,234.50 and 1.480").decimal_mark, DecimalMark::kPoint);
  EXPECT_EQ(HintsOf("1.234,5 and 1.480").decimal_mark, DecimalMark::kComma);
  EXPECT_EQ(HintsOf("1.480 kg in room 2.14").decimal_mark, DecimalMark::kUnknown);
  EXPECT_EQ(HintsOf("12,50 and $3.20").decimal_mark, DecimalMark::kUnknown);
  EXPECT_EQ(HintsOf("1,2,3 and 192.168.1.10 and 7, 8").decimal_mark, DecimalMark::kUnknown);
  EXPECT_EQ(HintsOf(".5 ,5 5. 5,").decimal_mark, DecimalMark::kUnknown);
}

TEST(HintsTest, TheYearThatAllDatesHave) {
  EXPECT_EQ(HintsOf("Bill of 09.05.2024. Re-check: 23 May").year, 2024);
  EXPECT_EQ(HintsOf("On Friday 31st May 2024, \"May 31, 2024\", (2024-06-01).").year, 2024);
  EXPECT_EQ(HintsOf("30 December 2023 to 2 January 2024").year, 0);
  EXPECT_EQ(HintsOf("in 2024, built 1998, tel. 2024 1998, £2024").year, 0);
  EXPECT_EQ(HintsOf("").year, 0);
}

TEST(MentionsTest, TextsThatHaveAValue) {
  const ExtractAttribute weight = Attribute(R"({"name":"a","type":"number","unit":"kg"})");
  EXPECT_THAT(MentionsOf(weight, "A box of (2,5 kg), 3 m.", nullptr, 9),
              testing::ElementsAre("2,5 kg"));
  EXPECT_THAT(MentionsOf(weight, "A box of 2,5, 3 m.", nullptr, 9),
              testing::ElementsAre("2,5", "3"));
  EXPECT_THAT(MentionsOf(weight, "1 2 3 4 5", nullptr, 2), testing::SizeIs(2));
  EXPECT_THAT(MentionsOf(weight, "", nullptr, 2), testing::IsEmpty());
}

TEST(FindMentionTest, ExamplesAreShownAsTheTextHasThem) {
  const std::string text = "Two lamps, 39,90 EUR each. Due: 31. Mai 2024.";
  EXPECT_EQ(FindMention(Attribute(R"({"name":"a","type":"number"})"), 39.9, text), "39,90 EUR");
  EXPECT_EQ(FindMention(Attribute(R"({"name":"a","type":"date"})"), "2024-05-31", text),
            "31. Mai 2024");
  EXPECT_EQ(FindMention(Attribute(R"({"name":"a","type":"number"})"), 7, text), std::nullopt);
}

ExtractedValue Value(const ExtractAttribute& attribute, OrderedJson value, double confidence,
                     std::optional<TextSpan> place) {
  ExtractedValue made;
  made.name = attribute.name;
  made.attribute = &attribute;
  made.value = std::move(value);
  made.confidence = confidence;
  made.places = {place};
  return made;
}

TEST(JoinPartsTest, TakesTheMostConfidentThatStandsInTheText) {
  const ExtractAttribute text = Attribute(R"({"name":"a"})");
  const auto joined = JoinParts({{Value(text, nullptr, 0.9, {})},
                                 {Value(text, "loose", 0.8, {})},
                                 {Value(text, "there", 0.3, TextSpan{1, 6})},
                                 {Value(text, "better", 0.4, TextSpan{9, 15})}});
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].value, "better");
  const auto none = JoinParts({{Value(text, nullptr, 0.9, {})}, {Value(text, nullptr, 0.6, {})}});
  EXPECT_DOUBLE_EQ(none[0].confidence, 0.6);
}

TEST(JoinPartsTest, UnitesLists) {
  const ExtractAttribute list =
      Attribute(R"({"name":"a","type":"list","of":"text","max_items":3})");
  const auto joined = JoinParts({{Value(list, {"x", "y"}, 0.9, TextSpan{0, 1})},
                                 {Value(list, nullptr, 0.9, {})},
                                 {Value(list, {"y", "z", "w"}, 0.5, TextSpan{9, 10})}});
  EXPECT_EQ(joined[0].value, OrderedJson::array({"x", "y", "z"}));
}

TEST(AssembleValuesTest, NestsObjectsAndItems) {
  const ExtractSchema schema = ParseExtractSchema(R"({"attributes":[
      {"name":"seller","type":"object","attributes":[{"name":"city"}]},
      {"name":"buyer","type":"object","attributes":[{"name":"city"}]},
      {"name":"items","type":"list","of":{"type":"object","attributes":[
        {"name":"what"},{"name":"n","type":"integer"}]}}]})",
                                                  "s.json");
  const ExtractCategory& category = schema.categories[0];
  const auto named = [&](const std::string& name, const ExtractAttribute& attribute,
                         OrderedJson value) {
    ExtractedValue made = Value(attribute, std::move(value), 1.0, {});
    made.name = name;
    return made;
  };
  const ExtractAttribute& city = category.attributes[0].parts[0];
  const std::vector<ExtractAttribute>& item = category.attributes[2].parts;
  EXPECT_EQ(AssembleValues(
                category,
                {named("seller.city", city, "Bonn"), named("buyer.city", city, nullptr),
                 named("items[0].what", item[0], "lamp"), named("items[0].n", item[1], 2),
                 named("items[1].what", item[0], "chair"), named("items[1].n", item[1], nullptr)}),
            OrderedJson::parse(R"({"seller":{"city":"Bonn"},"buyer":null,
              "items":[{"what":"lamp","n":2},{"what":"chair","n":null}]})"));
}

}  // namespace
}  // namespace banyan
