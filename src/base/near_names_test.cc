#include "program/near_names.h"

#include <gtest/gtest.h>

namespace banyan {
namespace {

const std::vector<std::string> kKnown = {"id", "context", "question", "questions", "instruction"};

TEST(NearNames, ASlipOrAnAbbreviationIsNear) {
  EXPECT_EQ(NearestName("contxt", kKnown), "context");
  EXPECT_EQ(NearestName("qestion", kKnown), "question");
  EXPECT_EQ(NearestName("instr", kKnown), "instruction");
  EXPECT_EQ(NearestName("body", kKnown), "");
}

TEST(NearNames, MistypedIsASlipAloneAndNoNameOfItsOwn) {
  EXPECT_EQ(MistypedName("instuction", kKnown), "instruction");
  EXPECT_EQ(MistypedName("contetx", kKnown), "context");
  EXPECT_EQ(MistypedName("question", kKnown), "");
  EXPECT_EQ(MistypedName("context_of_it", kKnown), "");
  EXPECT_EQ(MistypedName("ids", kKnown), "");
  EXPECT_EQ(MistypedName("content_type", kKnown), "");
}

}  // namespace
}  // namespace banyan
