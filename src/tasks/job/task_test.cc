#include <gtest/gtest.h>

#include "tasks/job/task.h"

namespace banyan {

namespace {

TEST(LiveText, ShowsWhatWasWrittenWithoutTheSpaceAround) {
  LiveText text;
  EXPECT_EQ(text.Take({}), "");
  text.Add(" Anna");
  EXPECT_EQ(text.Take({}), "Anna");
  EXPECT_EQ(text.Take({}), "");
  text.Add(" ");
  EXPECT_EQ(text.Take({}), "");
  text.Add("Walker\n");
  EXPECT_EQ(text.Take({}), " Walker");
  EXPECT_EQ(text.TakeRest("Anna Walker"), "");
}

TEST(LiveText, HoldsWhatMayBecomeNull) {
  LiveText text;
  text.Add("Nul");
  EXPECT_EQ(text.Take({}), "");
  text.Add("la");
  EXPECT_EQ(text.Take({}), "Nulla");
  EXPECT_TRUE(text.began());
}

TEST(LiveText, HoldsAllUntilItIsSure) {
  LiveText text;
  text.Add("Anna Walker");
  EXPECT_EQ(text.Take({.sure = false}), "");
  EXPECT_FALSE(text.began());
  EXPECT_EQ(text.Take({.sure = true}), "Anna Walker");
  LiveText other;
  other.Add("Anna");
  EXPECT_EQ(other.Take({.sure = false}), "");
  other.Clear();
  EXPECT_EQ(other.TakeRest(""), "");
  EXPECT_FALSE(other.began());
}

TEST(LiveText, AWordThatMayBeCutOffIsHeld) {
  LiveText text;
  text.Add("Anna");
  EXPECT_EQ(text.Take({.whole_words = true}), "");
  text.Add("  Wal");
  EXPECT_EQ(text.Take({.whole_words = true}), "Anna");
  text.Add("ker of");
  EXPECT_EQ(text.Take({.whole_words = true}), "  Walker");
  EXPECT_EQ(text.TakeRest("Anna  Walker"), "");  // the row has no half word
  LiveText one;
  one.Add("7:45 ");
  EXPECT_EQ(one.Take({.whole_words = true}), "7:45");
}

TEST(LiveText, TheRestIsThatOfTheRow) {
  LiveText text;
  text.Add("Anna Wal");
  EXPECT_EQ(text.Take({.whole_words = true}), "Anna");
  EXPECT_EQ(text.TakeRest("Anna Walker"), " Walker");
  LiveText cancelled;
  cancelled.Add("nul");
  EXPECT_EQ(cancelled.TakeAll(), "nul");
  LiveText other;
  other.Add("Anna");
  EXPECT_EQ(other.Take({}), "Anna");
  EXPECT_EQ(other.TakeRest("Bert"), "");
}

}  // namespace

}  // namespace banyan
