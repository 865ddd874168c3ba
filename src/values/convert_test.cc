#include "values/convert.h"

#include <gtest/gtest.h>

#include "values/conversion_fixture.h"
#include "values/list_split.h"
#include "values/value_text.h"

namespace banyan {

namespace {

TEST(Convert, Text) {
  ExpectConversions({ValueType::kText, "", {}}, {{"  a \t b\n\nc ", "\"a b c\""},
                                                 {"1,234 €", "\"1,234 €\""},
                                                 {"a\u00a0b", "\"a b\""},
                                                 {"", "null", "empty"},
                                                 {" \u2009\n", "null", "empty"},
                                                 {"a\xff", "\"a\uFFFD\""}});
  const std::string long_text(100000, 'a');
  EXPECT_EQ(ConvertValue(long_text, {}).value, long_text);
}

TEST(Convert, LongMentionsAreRefused) {
  for (const ValueType type : {ValueType::kNumber, ValueType::kInteger, ValueType::kBoolean,
                               ValueType::kDate, ValueType::kEnum}) {
    const ValueWish wish{type, "", {"yes"}};
    const ConvertedValue converted = ConvertValue(std::string(kMaxMentionBytes + 1, '1'), wish);
    EXPECT_TRUE(converted.value.is_null());
    EXPECT_NE(converted.reason.find("too long"), std::string::npos);
    EXPECT_LT(converted.reason.size(), 200u);
    const ConvertedValue other = ConvertValue("yes" + std::string(kMaxMentionBytes, ' '), wish);
    EXPECT_TRUE(other.value.is_null());
  }
}

// Bytes of every kind, in every type, give a value or a reason.
TEST(Convert, EveryByteIsHarmless) {
  for (const ValueType type : {ValueType::kText, ValueType::kNumber, ValueType::kInteger,
                               ValueType::kBoolean, ValueType::kDate, ValueType::kEnum}) {
    for (int a = 0; a < 256; ++a) {
      for (const std::string frame : {"_", "1_", "_1", "1_1", "1 _ 2024", "not _"}) {
        std::string text = frame;
        text.replace(text.find('_'), 1, 1, static_cast<char>(a));
        const ConvertedValue converted = ConvertValue(text, {type, "kg", {"a", "b"}});
        EXPECT_NE(converted.value.is_null(), converted.reason.empty()) << text;
        EXPECT_NO_THROW(static_cast<void>(nlohmann::ordered_json(converted.reason).dump()));
        EXPECT_NO_THROW(static_cast<void>(converted.value.dump()));
        EXPECT_NO_THROW(static_cast<void>(SplitList(text)));
      }
    }
  }
}

TEST(Convert, ReasonsQuoteAtMostSixtyCharacters) {
  const ConvertedValue converted = ConvertValue(std::string(300, 'z'), {ValueType::kDate, "", {}});
  EXPECT_EQ(converted.reason, "'" + std::string(60, 'z') + "…' is not a date");
}

TEST(Convert, FoldedText) {
  EXPECT_EQ(FoldedText("Größe ÉTÉ Œuvre Ångström"), "grosse ete oeuvre angstrom");
  EXPECT_EQ(FoldedWords("Isn't it, l'été ✓"),
            (std::vector<std::string>{"not", "it", "l", "ete", "✓"}));
}

}  // namespace

namespace {

const ValueWish kYesOrNo{ValueType::kBoolean, "", {}};

void ExpectAll(std::string_view json, const std::vector<std::string_view>& texts) {
  for (const std::string_view text : texts) {
    const ConvertedValue converted = ConvertValue(text, kYesOrNo);
    EXPECT_EQ(converted.value.dump(), json) << "of '" << text << "': " << converted.reason;
    EXPECT_EQ(converted.reason.empty(), json != "null") << text;
  }
}

TEST(Boolean, Yes) {
  ExpectAll("true", {"yes",
                     "Yes",
                     "YES",
                     "yes.",
                     "Yes!",
                     "y",
                     "true",
                     "True",
                     "included",
                     "Included.",
                     "available",
                     "allowed",
                     "enabled",
                     "on",
                     "1",
                     "x",
                     "[x]",
                     "✓",
                     "✔",
                     "✔️",
                     "☑",
                     "✅",
                     "ja",
                     "Ja",
                     "JA!",
                     "inklusive",
                     "inkl.",
                     "inbegriffen",
                     "enthalten",
                     "vorhanden",
                     "erlaubt",
                     "verfügbar",
                     "möglich",
                     "oui",
                     "Oui",
                     "inclus",
                     "incluse",
                     "compris",
                     "disponible",
                     "autorisé",
                     "vrai",
                     "wahr",
                     "breakfast included",
                     "WiFi available",
                     "Haustiere erlaubt",
                     "petit-déjeuner inclus",
                     "yes, included",
                     "Ja, inklusive",
                     "pets allowed",
                     "Pets: yes",
                     "is included",
                     "Frühstück ist enthalten",
                     "✓ breakfast"});
}

TEST(Boolean, No) {
  ExpectAll("false", {"no",
                      "No",
                      "NO.",
                      "n",
                      "false",
                      "none",
                      "not included",
                      "not allowed",
                      "without",
                      "excluded",
                      "off",
                      "0",
                      "✗",
                      "✘",
                      "❌",
                      "☐",
                      "nein",
                      "Nein",
                      "ohne",
                      "nicht enthalten",
                      "nicht erlaubt",
                      "kein",
                      "keine",
                      "keine Haustiere",
                      "ausgeschlossen",
                      "verboten",
                      "exkl.",
                      "non",
                      "Non",
                      "sans",
                      "non inclus",
                      "non compris",
                      "pas inclus",
                      "interdit",
                      "faux",
                      "falsch",
                      "not refundable",
                      "non-refundable",
                      "Non-refundable",
                      "non remboursable",
                      "nicht erstattungsfähig",
                      "no pets",
                      "pets not allowed",
                      "Haustiere nicht erlaubt",
                      "animaux non admis",
                      "sans petit-déjeuner",
                      "without breakfast",
                      "ohne Frühstück",
                      "breakfast is not included",
                      "n'est pas inclus",
                      "isn't included",
                      "pets aren’t allowed",
                      "no, not included",
                      "not available",
                      "No smoking",
                      "unavailable",
                      "Wi-Fi: no",
                      "pas de wifi",
                      "aucun",
                      "smoking prohibited",
                      "nein, leider nicht"});
}

TEST(Boolean, Neither) {
  ExpectAll("null", {"",
                     "  ",
                     "refundable",
                     "maybe",
                     "vielleicht",
                     "peut-être",
                     "on request",
                     "auf Anfrage",
                     "optional",
                     "free",
                     "smoke-free",
                     "barrierefrei",
                     "yes and no",
                     "ja und nein",
                     "not excluded",
                     "not without",
                     "nicht ausgeschlossen",
                     "no problem",
                     "kein Problem",
                     "60 EUR",
                     "2",
                     "-",
                     "n/a",
                     "unknown",
                     "leather",
                     "available on request",
                     "teilweise enthalten",
                     "partially included",
                     "\xff",
                     "not sure",
                     "breakfast included, parking not included",
                     "the hotel is quiet and close to the station and the breakfast is good yes"});
}

}  // namespace

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
