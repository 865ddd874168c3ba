// JSON values inside a template: what may follow them, where they end, how they are completed.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "banyan/constrain.h"
#include "constrain/token_masks.h"
#include "support/error_message.h"

namespace banyan {
namespace {

// All bytes, and some longer tokens; token 256 and on are the longer ones.
std::shared_ptr<const TokenTrie> Trie() {
  static const auto trie = [] {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    for (const char* more : {" \"", "\",", "\",\n", "null", "12", "\"}"}) tokens.emplace_back(more);
    return std::make_shared<const TokenTrie>(tokens);
  }();
  return trie;
}

std::shared_ptr<const Constraint> Value(const std::string& schema, bool bare) {
  const JsonSlot slot{" ", schema};
  std::vector<std::string> after = {",", ",\n", "}"};
  if (!bare) after.insert(after.begin(), "");
  ConstraintOptions options;
  options.end_when_complete = true;
  options.canonical = false;
  return Constraint::FromJsonTemplate({&slot, 1}, after, Trie(), options);
}

// Whether the answer goes on after these tokens, or nothing when one is refused.
std::optional<bool> GoesOn(const std::shared_ptr<const Constraint>& constraint,
                           const std::vector<std::string>& tokens) {
  ConstraintState state(constraint);
  for (const std::string& token : tokens) {
    if (!state.Advance(Trie()->LongestPrefix(token).value())) return std::nullopt;
  }
  return !state.MustEnd();
}

TEST(JsonTemplate, AStringEndsWithItsQuoteOrATokenThatHoldsIt) {
  const auto text = Value(R"({"type":["string","null"]})", false);
  EXPECT_EQ(GoesOn(text, {" \"", "a"}), true);
  EXPECT_EQ(GoesOn(text, {" \"", "a", "\""}), false);
  EXPECT_EQ(GoesOn(text, {" \"", "a", "\","}), false);
  EXPECT_EQ(GoesOn(text, {" \"", "a", "\",\n"}), false);
  EXPECT_EQ(GoesOn(text, {" \"", "a", "\"}"}), false);
  EXPECT_EQ(GoesOn(text, {" ", "null"}), false);
  EXPECT_EQ(GoesOn(text, {" \"", "\\"}), true);
  EXPECT_EQ(GoesOn(text, {" \"", "\\", "\""}), true);
  EXPECT_EQ(GoesOn(text, {"null"}), std::nullopt);  // the space comes first
}

TEST(JsonTemplate, ANumberEndsWithWhatComesAfterIt) {
  const auto number = Value(R"({"type":"integer"})", true);
  EXPECT_EQ(GoesOn(number, {" ", "12"}), true);
  EXPECT_EQ(GoesOn(number, {" ", "12", ","}), false);
  EXPECT_EQ(GoesOn(number, {" ", "12", "}"}), false);
  EXPECT_EQ(GoesOn(number, {" ", "12", " "}), std::nullopt);
}

TEST(JsonTemplate, CompletesInTheShortestWay) {
  EXPECT_EQ(Value(R"({"type":"string"})", false)->Completion(" \"ab"), "\"");
  EXPECT_EQ(Value(R"({"type":"string","minLength":3})", false)->Completion(" \"a"), "  \"");
  EXPECT_EQ(Value(R"({"enum":["black","white"]})", false)->Completion(" \"wh"), "ite\"");
  EXPECT_EQ(Value(R"({"type":"integer"})", true)->Completion(" 4"), ",");
  EXPECT_EQ(Value(R"({"type":"integer"})", true)->Completion(" x"), std::nullopt);
  EXPECT_EQ(Value(R"({"type":"integer"})", true)->Completion(" 4,"), "");
}

std::shared_ptr<const Constraint> Copied(const std::string& schema, std::string_view text) {
  const JsonSlot slot{" ", schema};
  const std::vector<std::string> after = {"", ",", ",\n", "}"};
  ConstraintOptions options;
  options.end_when_complete = true;
  options.canonical = false;
  return Constraint::FromCopyTemplate({&slot, 1}, after, text, Trie(), options);
}

constexpr const char* kCopiedOrNull = R"({"anyOf":[{"x-copied":true},{"type":"null"}]})";

TEST(JsonTemplate, ACopiedStringIsASpanOfTheText) {
  const auto copied = Copied(kCopiedOrNull, "A 12\" tray, C:\\new");
  for (const char* value :
       {" \"A 12\\\" tray\"", " null", " \"12\",", " \"C:\\\\new\"", " \"A\"}"}) {
    EXPECT_TRUE(copied->Matches(value)) << value;
  }
  for (const char* value :
       {" \"\"", " \"12\" tray\"", " \"tra\"", " \"tray A\"", " \"null\"", " 12"}) {
    EXPECT_FALSE(copied->Matches(value)) << value;
  }
}

TEST(JsonTemplate, ListsOfCopiesGoBackToTheWholeText) {
  const auto list = Copied(
      R"({"anyOf":[{"type":"array","items":{"x-copied":true},"minItems":1},{"type":"null"}]})",
      "red, blue and green");
  EXPECT_TRUE(list->Matches(" [\"green\", \"red\", \"red\"]"));
  EXPECT_TRUE(list->Matches(" null"));
  EXPECT_FALSE(list->Matches(" []"));
  EXPECT_FALSE(list->Matches(" [\"green\", \"gre\"]"));
}

TEST(JsonTemplate, ATextWithoutSpansLeavesNull) {
  const auto copied = Copied(kCopiedOrNull, " \n");
  EXPECT_TRUE(copied->Matches(" null"));
  EXPECT_FALSE(copied->Matches(" \"\""));
  EXPECT_EQ(testing_support::ErrorMessage(ErrorKind::kInput,
                                          [] { (void)Copied(R"({"x-copied":true})", ""); }),
            "there is nothing in the text that could be copied");
}

TEST(JsonTemplate, SchemasOfPeopleHaveNoCopies) {
  EXPECT_NE(testing_support::ErrorMessage(ErrorKind::kUnsupported,
                                          [] { (void)Value(R"({"x-copied":true})", false); }),
            "");
}

TEST(JsonTemplate, SeveralSlotsAreOneText) {
  const std::vector<JsonSlot> slots = {
      {" ", R"({"type":"integer"})"}, {",\n\"b\": ", R"({"type":"array","items":{"enum":["x"]}})"}};
  const std::vector<std::string> after = {"}"};
  const auto whole = Constraint::FromJsonTemplate(slots, after, Trie());
  EXPECT_TRUE(whole->Matches(" 12,\n\"b\": [\"x\", \"x\"]}"));
  EXPECT_TRUE(whole->Matches(" 0,\n\"b\": []}"));
  EXPECT_FALSE(whole->Matches(" 12,\n\"b\": [\"x\",\"x\"]}"));  // a space after the comma
  EXPECT_EQ(whole->BytesOf(std::vector<TokenId>{' ', 260, ','}), " 12,");
}

}  // namespace
}  // namespace banyan
