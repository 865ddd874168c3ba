// Answers as values: ends, cuts, escapes, places in the document.
#include <gtest/gtest.h>

#include "constrain/token_masks.h"
#include "tasks/extract/extract_convert.h"
#include "tasks/extract/extract_value.h"

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

TEST(PlacesOfTest, CountsCharacters) {
  const auto place = [](std::string_view document, nlohmann::ordered_json value) {
    return PlacesOf(value, document).front();
  };
  EXPECT_EQ(place("Größe: 42, schwarz", "schwarz"), (TextSpan{11, 18}));
  EXPECT_EQ(place("Größe: 42, schwarz", 42), (TextSpan{7, 9}));
  EXPECT_EQ(place("Sony TV", "sony"), (TextSpan{0, 4}));
  EXPECT_EQ(place("142 or 4.2 or 42.5 or 42.", 42), (TextSpan{22, 24}));
  EXPECT_EQ(place("Sony TV", "LG"), std::nullopt);
  EXPECT_EQ(place("true", true), std::nullopt);
  EXPECT_EQ(PlacesOf({"TV", "LG", "Sony"}, "Sony TV"),
            (std::vector<std::optional<TextSpan>>{TextSpan{5, 7}, std::nullopt, TextSpan{0, 4}}));
}

// A slot's answer, byte by byte, without a model.
WrittenValue Read(ValueKind kind, const std::string& form, std::string_view written,
                  bool nullable = true) {
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  const auto trie = std::make_shared<const TokenTrie>(bytes);
  ExtractAttribute attribute;
  attribute.kind = kind;
  attribute.nullable = nullable;
  ValueSlot slot;
  slot.attribute = &attribute;
  const JsonSlot value{" ", form};
  const std::vector<std::string> after = {"", ","};
  ConstraintOptions options;
  options.end_when_complete = true;
  const auto constraint =
      Constraint::FromCopyTemplate({&value, 1}, after, "red, blue \"and\" green", trie, options);
  Answer answer;
  for (const char c : " " + std::string(written)) {
    answer.tokens.push_back(static_cast<unsigned char>(c));
    answer.logprobs.push_back(-0.5f);
  }
  return ReadSlot(slot, *constraint, answer);
}

constexpr const char* kSpan = R"({"anyOf":[{"x-copied":true},{"type":"null"}]})";
constexpr const char* kSpans =
    R"({"anyOf":[{"type":"array","items":{"x-copied":true},"minItems":1},{"type":"null"}]})";

TEST(ReadSlotTest, WholeValues) {
  const WrittenValue text = Read(ValueKind::kText, kSpan, R"("blue \"and\"")");
  EXPECT_EQ(text.json, "blue \"and\"");
  EXPECT_FALSE(text.truncated);
  EXPECT_DOUBLE_EQ(text.logprob, -0.5 * text.tokens);
  EXPECT_TRUE(Read(ValueKind::kText, kSpan, "null,").json.is_null());
  EXPECT_EQ(Read(ValueKind::kList, kSpans, R"(["red", "green"])").json.size(), 2u);
}

TEST(ReadSlotTest, CutValuesKeepWhatIsWhole) {
  const WrittenValue text = Read(ValueKind::kText, kSpan, "\"blu");
  EXPECT_TRUE(text.truncated);
  EXPECT_EQ(text.json, "blu");
  EXPECT_EQ(Read(ValueKind::kList, kSpans, R"(["red", "gre)").json,
            nlohmann::ordered_json::array({"red"}));
  EXPECT_TRUE(Read(ValueKind::kList, kSpans, R"(["re)").json.is_null());
  EXPECT_TRUE(Read(ValueKind::kNumber, kSpan, "\"re").json.is_null());
  EXPECT_TRUE(Read(ValueKind::kNumber, kSpan, "\"re", /*nullable=*/false).json.is_null());
}

}  // namespace

}  // namespace banyan
