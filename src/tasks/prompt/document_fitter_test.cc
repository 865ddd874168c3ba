#include "tasks/prompt/document_fitter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace banyan {
namespace {

TEST(TextCut, EndsWithTheBestThatIsNear) {
  const std::string text = "One two. Three four\nfive six\n \nseven eight nine ten";
  const auto end = [&](size_t at, size_t back) { return text.substr(0, CutPlace(text, at, back)); };
  EXPECT_EQ(end(text.size(), 5), text);
  EXPECT_EQ(end(45, 40), "One two. Three four\nfive six\n \n");
  EXPECT_EQ(end(45, 10), "One two. Three four\nfive six\n \nseven eight ");
  EXPECT_EQ(end(28, 26), "One two. Three four\n");
  EXPECT_EQ(end(17, 16), "One two. ");
  EXPECT_EQ(end(7, 6), "One ");
  EXPECT_EQ(end(2, 2), "On");
  EXPECT_EQ(CutPlace("aä", 2, 2), 1u);  // not inside a character
}

TEST(TextCut, BeginsAfterTheBestThatIsNear) {
  const std::string text = "One two. Three four\n\nfive six. Seven";
  EXPECT_EQ(BeginPlace(text, 0, 10), 0u);
  EXPECT_EQ(text.substr(BeginPlace(text, 2, 30)), "five six. Seven");
  EXPECT_EQ(text.substr(BeginPlace(text, 2, 15)), "Three four\n\nfive six. Seven");
  EXPECT_EQ(text.substr(BeginPlace(text, 22, 24)), "ive six. Seven");
}

// A token is a byte, and every prompt has ten tokens of its own.
std::int64_t BytesAndTen(std::string_view text) {
  return static_cast<std::int64_t>(text.size()) + 10;
}

std::string Paragraphs(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "Paragraph " + std::to_string(i) + " is short.\n\n";
  return text;
}

TEST(DocumentFitter, TruncatesAfterAWord) {
  const std::string text = "One two three four five six seven";
  EXPECT_EQ(DocumentFitter(text, 40, 10, BytesAndTen).Truncated(), "One two three four five ");
  EXPECT_EQ(DocumentFitter(text, 80, 10, BytesAndTen).Truncated(), text);
  EXPECT_EQ(DocumentFitter(text, 12, 10, BytesAndTen).Truncated(), std::nullopt);
}

TEST(DocumentFitter, OverlappingPartsCoverTheDocument) {
  const std::string text = Paragraphs(20);
  DocumentFitter fitter(text, 130, 10, BytesAndTen);
  size_t covered = 0, parts = 0;
  for (; !fitter.done(); ++parts) {
    const std::string_view part = fitter.NextOverlapping().value();
    const auto begin = static_cast<size_t>(part.data() - text.data());
    EXPECT_LE(BytesAndTen(part), 130);
    EXPECT_TRUE(part.ends_with("\n\n"));
    EXPECT_TRUE(parts == 0 ? begin == 0 : begin < covered) << parts;
    covered = begin + part.size();
  }
  EXPECT_EQ(covered, text.size());
  EXPECT_GT(parts, 4u);
}

TEST(DocumentFitter, AdjacentPartsAreTheDocument) {
  const std::string text = Paragraphs(20);
  std::string measured, joined;
  DocumentFitter fitter(text, 130, 10, [&](std::string_view part) {
    measured = part;
    return BytesAndTen(part);
  });
  while (!fitter.done()) {
    const std::string_view part = fitter.NextAdjacent().value();
    EXPECT_LE(BytesAndTen(part), 130);
    EXPECT_TRUE(part.ends_with("\n\n"));
    EXPECT_EQ(part, measured);
    joined += part;
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(DocumentFitter(text, 10, 10, BytesAndTen).NextAdjacent(), std::nullopt);
}

TEST(DocumentFitter, TheLongestOfSeveralIsCut) {
  std::vector<std::string_view> documents = {"short", "a much longer text \u00e4\u00e4\u00e4"};
  const auto tokens = [&] {
    return static_cast<std::int64_t>(documents[0].size() + documents[1].size());
  };
  EXPECT_TRUE(CutLongest(documents, 29, tokens));
  EXPECT_EQ(documents[0], "short");
  EXPECT_EQ(documents[1], "a much longer text \u00e4\u00e4");  // between characters
  EXPECT_FALSE(CutLongest(documents, -1, tokens));
}

TEST(DocumentFitter, CountsTheTokensThatFit) {
  EXPECT_EQ(FittingTokens(50, 80, 100), 50);
  EXPECT_EQ(FittingTokens(50, 120, 100), 30);
  EXPECT_EQ(FittingTokens(50, 160, 100), -10);
}

}  // namespace
}  // namespace banyan
