#include "baseline/prompt_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(PromptLookup, TakesWhatFollowedTheLongestMatch) {
  const std::vector<TokenId> text = {1, 2, 3, 9, 2, 3, 8, 5, 1, 2, 3};
  EXPECT_THAT(LookUpDraft(text, 3, 2), ElementsAre(9, 2));  // 1 2 3 comes twice
  EXPECT_THAT(LookUpDraft(text, 2, 2), ElementsAre(8, 5));  // of 2 3 the later place
  EXPECT_THAT(LookUpDraft(text, 3, 100), ElementsAre(9, 2, 3, 8, 5, 1, 2, 3));
}

TEST(PromptLookup, HasNothingForANewToken) {
  EXPECT_THAT(LookUpDraft(std::vector<TokenId>{1, 2, 3}, 3, 4), IsEmpty());
  EXPECT_THAT(LookUpDraft(std::vector<TokenId>{7}, 3, 4), IsEmpty());
  EXPECT_THAT(LookUpDraft({}, 3, 4), IsEmpty());
  EXPECT_THAT(LookUpDraft(std::vector<TokenId>{7, 7}, 3, 0), IsEmpty());
}

TEST(PromptLookup, AMatchMayOverlapTheEnd) {
  EXPECT_THAT(LookUpDraft(std::vector<TokenId>{7, 7, 7}, 2, 4), ElementsAre(7));
}

}  // namespace
}  // namespace banyan
