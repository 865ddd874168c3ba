#include "base/json.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json_text.h"
#include "base/work_budget.h"
#include "support/counted_memory.h"
#include "support/error_message.h"

namespace banyan {
namespace {

using testing_support::CountedMemory;
using testing_support::ErrorMessage;

TEST(Json, DepthAndSyntaxAreErrors) {
  EXPECT_EQ(ParseJson("{\"a\":[1]}", "x")["a"][0], 1);
  EXPECT_THROW(ParseJson("{\"a\":", "x"), Error);
  EXPECT_THROW(ParseJson(std::string(100000, '['), "x"), Error);
  try {
    ParseJson("{bad", "file line 3");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("file line 3"), std::string::npos);
  }
}

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

TEST(JsonRow, FirstErrorIsTheLibrarysOpinion) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[1,]",
                           "{\"a\":}",
                           "nul",
                           "1 2",
                           "{\"a\" 1}",
                           "\"\\x\"",
                           "[,1]",
                           "{,}",
                           "01",
                           "-",
                           "1.",
                           ".5",
                           "1e",
                           "1e+",
                           "\"\\ud800\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\udc00\"",
                           "\"\\u00g0\"",
                           "\"\x01\"",
                           "\"\xc0\x80\"",
                           "\"\xed\xa0\x80\"",
                           "\"\xf5\x80\x80\x80\"",
                           "\"\xe2\x82\"",
                           "[1}",
                           "{\"a\":1]",
                           "[1",
                           "\"",
                           "\"\\",
                           "[] x",
                           "tru",
                           "+1"}) {
    EXPECT_TRUE(FirstJsonError(text).has_value()) << text;
    EXPECT_FALSE(Json::accept(std::string_view(text))) << text;
  }
  for (const char* text :
       {"null", " [ ] ", "{ }", "-0.0e-1", "[1,{\"a\":[]},\"\\ud83d\\ude00\\n\"]",
        "\"\xf0\x9f\x98\x80\"", "[[[]],{}, true ,false]", "{\"a\":{\"b\":1},\"c\":2}"}) {
    EXPECT_FALSE(FirstJsonError(text).has_value()) << text;
    EXPECT_TRUE(Json::accept(std::string_view(text))) << text;
  }
  EXPECT_EQ(FirstJsonError("[1,\n2 3]"), 6u);
  EXPECT_EQ(FirstJsonError(std::string(300, '[')), std::nullopt);  // the builder says so
}

// The library takes a zero byte for the end: what follows would be seen by nobody.
TEST(JsonRow, NothingHidesBehindAZeroByte) {
  for (const std::string_view text : {std::string_view("[1]\0 x", 6), std::string_view("\0", 1),
                                      std::string_view("{\"a\":\0 1}", 9)}) {
    const auto message = [&](const auto& parse) {
      return ErrorMessage(ErrorKind::kFormat, [&] { parse(); });
    };
    EXPECT_NE(message([&] { ParseJsonRow(text); }).find("zero at byte"), std::string::npos);
    EXPECT_NE(message([&] { ParseJson(text, "f"); }).find("zero at byte"), std::string::npos);
  }
}

// The library writes the text that it cannot read into its message, several times.
TEST(JsonRow, MessageOfALongTextIsShort) {
  for (const std::string& text :
       {"{\"a\":\n\"" + std::string(1 << 20, 'x'), "[\"b\" \"" + std::string(1 << 20, 'x') + "\"]",
        "[" + std::string(1 << 20, '1') + "]", std::string(1 << 20, 't')}) {
    const std::string message = ErrorMessage(ErrorKind::kFormat, [&] { ParseJsonRow(text); });
    EXPECT_NE(message.find("not valid JSON: parse error at line "), std::string::npos)
        << message.substr(0, 100);
    EXPECT_LT(message.size(), 100u);
  }
  EXPECT_EQ(ParseJsonRow("[\"" + std::string(1 << 20, 'x') + "\"]")[0].get<std::string>().size(),
            1u << 20);
}

TEST(JsonRow, LongTextsAreCharged) {
  CountedMemory memory;
  WorkBudget budget;
  budget.memory = &memory;
  const BudgetScope scope(budget);
  const std::string text = "[\"" + std::string(1 << 20, 'x') + "\"]";
  ParseJsonRow(text);
  EXPECT_GE(memory.taken, static_cast<std::int64_t>(3 * text.size()));
}

TEST(JsonRow, MemoryAndNamesAreLimited) {
  const auto objects = [](int count) {
    std::string text = "[{}";
    for (int i = 1; i < count; ++i) text += ",{}";
    return text + "]";
  };
  const JsonLimits limits{1 << 20, 100};
  EXPECT_EQ(ParseJsonRow(objects(10'000), limits).size(), 10'000u);  // 96 bytes each
  EXPECT_NE(ErrorMessage(ErrorKind::kLimit, [&] { ParseJsonRow(objects(12'000), limits); })
                .find("more than 1 MiB"),
            std::string::npos);
  Json names;
  for (int i = 0; i < 100; ++i) names[std::to_string(i)] = i;
  EXPECT_EQ(ParseJsonRow(names.dump(), limits), names);
  names["one more"] = 1;
  EXPECT_NE(ErrorMessage(ErrorKind::kLimit, [&] { ParseJsonRow(names.dump(), limits); })
                .find("more than 100 names"),
            std::string::npos);
}

TEST(JsonRow, TheThreadsBudgetIsHeeded) {
  std::string text = "[1";
  for (int i = 0; i < 10'000; ++i) text += ",1";
  text += "]";
  CountedMemory memory;
  memory.most = 1'000'000;
  WorkBudget budget;
  budget.memory = &memory;
  const BudgetScope scope(budget);
  ParseJsonRow(text);
  EXPECT_EQ(memory.taken, 10'002 * 32 + 64);
  budget.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  EXPECT_THROW(ParseJsonRow(text), WorkStopped);
  budget.deadline = std::chrono::steady_clock::time_point::max();
  budget.unwanted = [] { return true; };
  EXPECT_THROW(ParseJsonRow(text), WorkStopped);
  budget.unwanted = nullptr;
  memory.taken = 1'000'000;
  EXPECT_THROW(ParseJsonRow(text), WorkStopped);
}

TEST(JsonRow, TheTextOfAValueIsFound) {
  const auto text = [](std::string_view json, std::vector<const char*> way) {
    return std::string(JsonValueText(json, way));
  };
  const char* json =
      R"( {"a" : {"b":[1,{"c":"]}"}] , "b2":-1.5e3 ,"a":"x\\"},"\u0064":null, "e":{} } )";
  EXPECT_EQ(text(json, {"a", "b"}), R"([1,{"c":"]}"}])");
  EXPECT_EQ(text(json, {"a", "b2"}), "-1.5e3");
  EXPECT_EQ(text(json, {"a", "a"}), R"("x\\")");
  EXPECT_EQ(text(json, {"d"}), "null");
  EXPECT_EQ(text(json, {"e"}), "{}");
  EXPECT_EQ(text(json, {"e", "f"}), "");
  EXPECT_EQ(text(json, {"a", "b", "c"}), "");
  EXPECT_EQ(text(R"({"a":1,"a":2})", {"a"}), "2");
  EXPECT_EQ(text("7", {}), "7");
  // Also over text that is no JSON it ends.
  for (const char* bad : {"", "{", "{\"a\"", "{\"a\":", "{\"a\":[", "\"", "{\"a\":\"\\"}) {
    text(bad, {"a"});
  }
}

TEST(JsonRow, DepthIsLimited) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  const auto refused = [](const std::string& text) {
    return ErrorMessage(ErrorKind::kFormat, [&] { ParseJsonRow(text); });
  };
  EXPECT_EQ(DumpJson(ParseJsonRow(nested(256))), nested(256));
  for (const size_t depth : {257u, 300u, 200'000u}) {
    EXPECT_NE(refused(nested(depth)).find("nests"), std::string::npos) << depth;
  }
  // FirstJsonError looks no further than this depth, so no error behind it is met first.
  for (const size_t depth : {257u, 258u}) {
    const std::string wrong = std::string(depth, '[') + "]}";
    EXPECT_FALSE(FirstJsonError(wrong)) << depth;
    EXPECT_NE(refused(wrong).find("nests"), std::string::npos) << depth;
  }
}

}  // namespace
}  // namespace banyan
