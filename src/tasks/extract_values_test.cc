// Answers as values: ends, cuts, escapes, places in the document.
#include "tasks/extract_values.h"

#include <gtest/gtest.h>

namespace banyan {
namespace {

TEST(JsonValueEndTest, FindsTheEnd) {
  const auto value = [](std::string_view text) { return text.substr(0, JsonValueEnd(text, 0)); };
  EXPECT_EQ(value(R"("a\"b", 1)"), R"("a\"b")");
  EXPECT_EQ(value(R"("a, b\\",)"), R"("a, b\\")");
  EXPECT_EQ(value("12.5,\n"), "12.5");
  EXPECT_EQ(value("null}"), "null");
  EXPECT_EQ(value(R"(["a]", ["b"]], 3)"), R"(["a]", ["b"]])");
  EXPECT_EQ(value(R"({"a": {"b": "}"}}})"), R"({"a": {"b": "}"}})");
  EXPECT_EQ(value(R"("open)"), R"("open)");
  EXPECT_EQ(value(R"("open\)"), R"("open\)");
}

TEST(SpanOfTest, CountsCharacters) {
  const auto span = [](std::string_view document, nlohmann::ordered_json value) {
    ExtractedValue extracted;
    extracted.written = value.dump();
    extracted.value = std::move(value);
    return SpanOf(extracted, document);
  };
  EXPECT_EQ(span("Größe: 42, schwarz", "schwarz"), (TextSpan{11, 18}));
  EXPECT_EQ(span("Größe: 42, schwarz", 42), (TextSpan{7, 9}));
  EXPECT_EQ(span("Sony TV", "sony"), (TextSpan{0, 4}));
  EXPECT_EQ(span("142 or 4.2 or 42.5 or 42.", 42), (TextSpan{22, 24}));
  EXPECT_EQ(span("Sony TV", "LG"), std::nullopt);
  EXPECT_EQ(span("true", true), std::nullopt);
  EXPECT_EQ(span("null", nullptr), std::nullopt);
}

}  // namespace
}  // namespace banyan
