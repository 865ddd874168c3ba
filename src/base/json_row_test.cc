#include "base/json_row.h"

#include <gtest/gtest.h>

#include <set>

#include "support/error_message.h"

namespace banyan {
namespace {

using testing_support::ErrorMessage;

TEST(JsonRow, NumbersAreWrittenAsTheyWereRead) {
  for (const char* text :
       {"0", "-1", "18446744073709551615", "18446744073709551616", "-9223372036854775809",
        "123456789012345678901234567890", "1.5", "1.50", "1e5", "0.1234567890123456789",
        R"({"a":[1e2,{"b":18446744073709551617}],"c":"x","d":{},"e":[]})"}) {
    EXPECT_EQ(DumpJson(ParseJsonRow(text)), text);
    EXPECT_EQ(DumpJson(nlohmann::ordered_json(ParseJsonRow(text))), text);
  }
  const Json large = ParseJsonRow("18446744073709551616");
  EXPECT_TRUE(IsNumber(large));
  EXPECT_STREQ(TypeName(large), "number");
  EXPECT_NE(large, ParseJsonRow("18446744073709551617"));
  EXPECT_FALSE(IsNumber(ParseJsonRow("\"1\"")));
}

TEST(JsonRow, ReadsWhatTheLibraryReads) {
  for (const char* text :
       {R"({"b":1,"a":[true,false,null,"\u00e9\n",{"x":[]}],"b":2})", "[]", "\"t\"", "null",
        "[[1,2],[3,[4]],{}]", R"({"a":{"b":{"c":[1,{"d":2}]}},"e":3})"}) {
    EXPECT_EQ(ParseJsonRow(text), Json::parse(text)) << text;
  }
  for (const char* text :
       {"", "{", "[1,]", "{\"a\":}", "nul", "1 2", "{\"a\" 1}", "1e999", "\"\\x\""}) {
    EXPECT_NE(ErrorMessage(ErrorKind::kFormat, [&] { ParseJsonRow(text); }).find("not valid JSON"),
              std::string::npos)
        << text;
  }
}

TEST(JsonRow, DepthIsLimited) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(DumpJson(ParseJsonRow(nested(200))), nested(200));
  for (const size_t depth : {300u, 200'000u}) {
    EXPECT_NE(ErrorMessage(ErrorKind::kFormat, [&] { ParseJsonRow(nested(depth)); }).find("nests"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace banyan
