#include "values/enum_match.h"

#include "values/conversion_fixture.h"

namespace banyan {
namespace {

ValueWish OneOf(std::vector<std::string> allowed) {
  return {ValueType::kEnum, "", std::move(allowed)};
}

TEST(Enum, SpellingsOfAnAllowedValue) {
  ExpectConversions(OneOf({"green", "dark green", "blue", "Grün", "off-white"}),
                    {{"green", "\"green\""},
                     {"Green", "\"green\""},
                     {"GREEN", "\"green\""},
                     {" green ", "\"green\""},
                     {"forest-green", "\"green\""},
                     {"forest green", "\"green\""},
                     {"dark green", "\"dark green\""},
                     {"Dark-Green", "\"dark green\""},
                     {"darkgreen", "\"dark green\""},
                     {"a dark green chair", "\"dark green\""},
                     {"grün", "\"Grün\""},
                     {"GRÜN", "\"Grün\""},
                     {"grun", "\"Grün\""},
                     {"grüne", "\"Grün\""},
                     {"Blues", "\"blue\""},
                     {"off white", "\"off-white\""},
                     {"offwhite", "\"off-white\""},
                     {"Off‑White", "\"off-white\""},
                     {"green.", "\"green\""},
                     {"\"green\"", "\"green\""},
                     {"blue, mostly", "\"blue\""}});
}

TEST(Enum, Refusals) {
  ExpectConversions(OneOf({"green", "blue", "smoking"}),
                    {{"", "null", "none of"},
                     {"red", "null", "'red' is none of the allowed values"},
                     {"blue and green", "null", "both"},
                     {"evergreen", "null", "none of"},
                     {"greenish", "null", "none of"},
                     {"not green", "null", "denies"},
                     {"nicht blue", "null", "denies"},
                     {"non-smoking", "null", "denies"},
                     {"smoking not allowed", "null", "denies"},
                     {"\xff", "null", "none of"},
                     {"--", "null", "none of"}});
  ExpectConversions(OneOf({}), {{"green", "null", "none of"}});
  ExpectConversions(
      OneOf({"Green", "GREEN"}),
      {{"green", "null", "both"}, {"Green", "\"Green\""}, {"dark green", "null", "both"}});
}

TEST(Enum, OtherDirection) {
  ExpectConversions(OneOf({"full time", "part time", "apartment house", "non-smoking room",
                           "smoking room", "A+"}),
                    {{"full", "\"full time\""},
                     {"time", "null", "both"},
                     {"apartment", "\"apartment house\""},
                     {"smoking", "\"smoking room\""},
                     {"non-smoking", "null"},
                     {"Non-Smoking Room", "\"non-smoking room\""},
                     {"smoking rooms", "\"smoking room\""},
                     {"A+", "\"A+\""},
                     {"part-time job", "\"part time\""}});
}

TEST(Enum, Plurals) {
  ExpectConversions(OneOf({"battery", "bus", "Hund", "Katze", "bateau", "box"}),
                    {{"batteries", "\"battery\""},
                     {"buses", "\"bus\""},
                     {"Hunde", "\"Hund\""},
                     {"Katzen", "\"Katze\""},
                     {"bateaux", "\"bateau\""},
                     {"boxes", "\"box\""},
                     {"two boxes", "\"box\""}});
  ExpectConversions(OneOf({"boxes"}), {{"box", "\"boxes\""}});
}

TEST(Enum, SignsAndNumbers) {
  ExpectConversions(OneOf({"+", "-", "1", "10", "€"}), {{"+", "\"+\""},
                                                        {"-", "\"-\""},
                                                        {"1", "\"1\""},
                                                        {"10", "\"10\""},
                                                        {"€", "\"€\""},
                                                        {"100", "null"}});
}

TEST(Enum, ValuesThatATextDenies) {
  const std::vector<std::string> colours = {"red", "green", "dark blue", "none"};
  const auto denied = [&](std::string_view text) { return DeniedValues(text, colours); };
  using Values = std::vector<std::string>;
  EXPECT_EQ(denied("It is not green."), Values{"green"});
  EXPECT_EQ(denied("Sans rouge, keine Red-Variante, not in dark blue"),
            (Values{"red", "dark blue"}));
  EXPECT_EQ(denied("Not green, but the legs are green."), Values{});  // named without a denial too
  EXPECT_EQ(denied("Not sold here. Green."), Values{});               // another sentence
  EXPECT_EQ(denied("Not as I would have liked it green"), Values{});  // too far
  EXPECT_EQ(denied("greenhouse, not"), Values{});
  EXPECT_EQ(denied(""), Values{});
}

}  // namespace
}  // namespace banyan
