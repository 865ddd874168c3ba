#include "text/unicode.h"

#include <gtest/gtest.h>
#include <bit>
#include <string>
#include <vector>

#include "text/regex.h"
#include "text/tokenizer/normalizer.h"

namespace banyan {

namespace {

std::string ReplacedAll(std::string text, std::string_view from, std::string_view to) {
  ReplaceAll(text, from, to);
  return text;
}

// Every character of Unicode has the class that PCRE2 and the tokenizers' own functions give it.
TEST(CharacterClass, AllCharacters) {
  std::string text;
  std::vector<char32_t> codes;
  std::vector<size_t> places;
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    places.push_back(text.size());
    codes.push_back(code);
    AppendUtf8(code, text);
  }
  const auto marks = [&](const char* pattern) {
    std::vector<bool> marked(text.size(), false);
    std::vector<TextRange> matches;
    Regex(pattern, "test").FindAll(text, matches);
    for (const TextRange& match : matches) {
      for (size_t i = match.begin; i < match.end; ++i) marked[i] = true;
    }
    return marked;
  };
  const std::vector<bool> letters = marks("\\p{L}"), numbers = marks("\\p{N}"),
                          spaces = marks("\\s");
  for (size_t i = 0; i < codes.size(); ++i) {
    const ClassifiedCharacter c = ClassifyUtf8(text.data() + places[i]);
    const size_t next = i + 1 < places.size() ? places[i + 1] : text.size();
    ASSERT_EQ(c.length, next - places[i]);
    ASSERT_EQ((c.classes & kLetterClass) != 0, letters[places[i]])
        << static_cast<std::uint32_t>(codes[i]);
    ASSERT_EQ((c.classes & kNumberClass) != 0, numbers[places[i]])
        << static_cast<std::uint32_t>(codes[i]);
    ASSERT_EQ((c.classes & kSpaceClasses) != 0, spaces[places[i]])
        << static_cast<std::uint32_t>(codes[i]);
    ASSERT_EQ((c.classes & kNewlineClass) != 0, codes[i] == '\r' || codes[i] == '\n');
    ASSERT_EQ((c.classes & kNumericClass) != 0, IsNumeric(codes[i]))
        << static_cast<std::uint32_t>(codes[i]);
    ASSERT_EQ(std::popcount(static_cast<unsigned>(c.classes & ~kNumericClass)), 1);
    ASSERT_EQ(ClassInTable(codes[i]), c.classes);
  }
}

TEST(CharacterClass, CutsBeforeWords) {
  const auto cut = [](std::string_view text) { return IsCutBeforeWord(text, text.find(' ')); };
  EXPECT_TRUE(cut("a b"));
  EXPECT_TRUE(cut("\u00e9 \u0434"));
  EXPECT_TRUE(cut("\xff\u5b57 b"));
  EXPECT_FALSE(cut("a  b"));
  EXPECT_FALSE(cut("a 1"));
  EXPECT_FALSE(cut("1 a"));
  EXPECT_FALSE(cut("a. b"));
  EXPECT_FALSE(cut(" b"));
  EXPECT_FALSE(cut("a "));
  EXPECT_FALSE(cut("e\u0301 b"));
  EXPECT_FALSE(cut("a \u0301b"));
  EXPECT_FALSE(cut("a\xbf b"));  // a byte that belongs to nothing
  EXPECT_FALSE(cut("a \xc3"));   // half a letter
  EXPECT_FALSE(cut("\xc3 b"));
  EXPECT_FALSE(IsCutBeforeWord("ab", 1));
}

TEST(SurelyNfc, NormalFormCChangesNothing) {
  const auto text_of = [](char32_t code) {
    std::string text;
    AppendUtf8(code, text);
    return text;
  };
  std::vector<std::string> sure;
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    if (IsSurelyNfc(text_of(code))) sure.push_back(text_of(code));
  }
  EXPECT_GT(sure.size(), 30000u);
  // Alone, and after characters that compose with marks, vowels and final consonants.
  for (const std::string before :
       {"", "a", "e", "\u0438", "\u304b", "\u1100", "\uac00", " ", "e\u0301"}) {
    std::string all;
    for (const std::string& character : sure) all += before + character;
    EXPECT_EQ(ToNormalForm(all, NormalForm::kNfc),
              before == "e\u0301" ? ReplacedAll(all, before, "\u00e9") : all);
  }
  for (const char* unsure : {"e\u0301", "\u2126", "\u1100\u1161", "\u304b\u3099", "\u0385"}) {
    EXPECT_FALSE(IsSurelyNfc(unsure)) << unsure;
  }
}

}  // namespace

}  // namespace banyan
