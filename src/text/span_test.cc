#include "text/span.h"

#include <gtest/gtest.h>

namespace banyan {
namespace {

void ExpectSpan(std::string_view document, std::string_view words, std::int64_t start,
                std::int64_t end) {
  const std::optional<TextSpan> span = FindSpan(document, words);
  ASSERT_TRUE(span.has_value()) << words;
  EXPECT_EQ(span->start, start) << words;
  EXPECT_EQ(span->end, end) << words;
}

TEST(Span, StandsWhereTheWordsAre) {
  ExpectSpan("Anna Walker steers it.", "Anna Walker", 0, 11);
  ExpectSpan("It costs 32 euros.", "32 euros.", 9, 18);
  ExpectSpan("KT-4821", "KT-4821", 0, 7);
}

TEST(Span, CountsCharactersNotBytes) {
  ExpectSpan("Zürich → Genève, 4 €", "Genève", 9, 15);
  ExpectSpan("東京は日本の首都です", "日本", 3, 5);
}

TEST(Span, NeverStandsInsideALongerWord) {
  ExpectSpan("1745 and 7", "7", 9, 10);
  EXPECT_FALSE(FindSpan("Annabel", "Anna").has_value());
  EXPECT_FALSE(FindSpan("Annabel", "bel").has_value());
}

TEST(Span, WordsAndNumbersMayBeCutAtTheirEndsAlone) {
  const auto cuts = [](std::string_view text) {
    std::string marked;
    for (size_t at = 0; at <= text.size(); ++at) {
      if (!CutsWord(text, at)) marked += '|';
      marked += text.substr(at, 1);
    }
    return marked;
  };
  EXPECT_EQ(cuts("Bart's 7:45, 1,250.50."), "|Bart|'|s| |7:45|,| |1,250.50|.|");
  EXPECT_EQ(cuts("03/12 a/b x_1 3.x"), "|03/12| |a|/|b| |x|_|1| |3|.|x|");
  EXPECT_EQ(cuts("né-Öl ё"), "|né|-|Öl| |ё|");
  EXPECT_EQ(cuts("日本の7"), "|日|本|の|7|");
  EXPECT_EQ(cuts(""), "|");
}

TEST(Span, SpaceIsAnySpace) {
  ExpectSpan("signed by Anna\n   Walker.", "Anna Walker", 10, 24);
  ExpectSpan("a b", "  a b ", 0, 3);
}

TEST(Span, LetterCaseMayNotCount) {
  EXPECT_EQ(FindSpan("Größe: SONY tv", "sony TV"), std::nullopt);
  EXPECT_EQ(FindSpan("Größe: SONY tv", "sony TV", LetterCase::kAny), (TextSpan{7, 14}));
}

TEST(Span, NumbersStandAlone) {
  EXPECT_EQ(FindNumber("142 or 4.2 or 42.5 or 1,42 or 42.", "42"), (TextSpan{30, 32}));
  EXPECT_EQ(FindNumber("é 3.5kg", "3.5"), (TextSpan{2, 5}));
  EXPECT_EQ(FindNumber("3.55, 13.5", "3.5"), std::nullopt);
  EXPECT_EQ(FindNumber("7", ""), std::nullopt);
}

TEST(Span, WhatIsNotThereHasNone) {
  EXPECT_FALSE(FindSpan("some text", "other").has_value());
  EXPECT_FALSE(FindSpan("some text", "").has_value());
  EXPECT_FALSE(FindSpan("", "x").has_value());
  EXPECT_FALSE(FindSpan("some text", "text more").has_value());
}

}  // namespace
}  // namespace banyan
