#include <gtest/gtest.h>
#include <string>

#include "tasks/prompt/document_fitter.h"

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

}  // namespace

}  // namespace banyan
