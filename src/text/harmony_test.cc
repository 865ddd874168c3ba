#include "text/harmony.h"

#include <gtest/gtest.h>

namespace banyan {
namespace {

TEST(Harmony, TheAnswerIsTheFinalChannel) {
  const HarmonyText split = SplitHarmony(
      "<|channel|>analysis<|message|>Capitals.<|end|><|start|>assistant<|channel|>final<|message|>"
      "Rome<|return|>");
  EXPECT_TRUE(split.in_channels);
  EXPECT_EQ(split.thinking, "Capitals.");
  EXPECT_EQ(split.answer, "Rome");
}

TEST(Harmony, ThoughtsWithoutAnEndAreNoAnswer) {
  const HarmonyText split = SplitHarmony("<|channel|>analysis<|message|>Let me see");
  EXPECT_TRUE(split.in_channels);
  EXPECT_EQ(split.thinking, "Let me see");
  EXPECT_EQ(split.answer, "");
}

TEST(Harmony, SeveralThoughtsAndAConstrainedAnswer) {
  const HarmonyText split = SplitHarmony(
      "<|channel|>analysis<|message|>one<|end|><|start|>assistant<|channel|>commentary to=x"
      "<|message|>two<|call|><|start|>assistant<|channel|>final <|constrain|>json<|message|>{}");
  EXPECT_EQ(split.thinking, "one\ntwo");
  EXPECT_EQ(split.answer, "{}");
}

TEST(Harmony, OtherTextStaysWhatItIs) {
  EXPECT_FALSE(SplitHarmony("Rome").in_channels);
  EXPECT_FALSE(SplitHarmony("<|channel|>final").in_channels);
  EXPECT_FALSE(SplitHarmony("").in_channels);
}

TEST(Harmony, TemplatesAreKnownByTheirMarks) {
  EXPECT_TRUE(IsHarmonyTemplate(
      "{{'<|start|>user<|message|>' + m.content + '<|end|>'}}<|start|>assistant<|channel|>final"));
  EXPECT_FALSE(IsHarmonyTemplate("<|im_start|>assistant\n"));
}

}  // namespace
}  // namespace banyan
