#include "values/convert.h"

#include <gtest/gtest.h>

#include "values/conversion_fixture.h"
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
}  // namespace banyan
