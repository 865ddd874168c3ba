#include "load/planning_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "kernels/probe_costs.h"
#include "support/temp_directory.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr AttentionShape kShape{4, 2, 16};

class PlanningCostsTest : public ::testing::Test {
 protected:
  std::string Content() const {
    std::ifstream file(file_);
    return (std::ostringstream() << file.rdbuf()).str();
  }
  void Write(const std::string& text) const { std::ofstream(file_) << text; }
  PlanningCosts Find(bool measure) { return FindPlanningCosts(*kernels_, kShape, measure, file_); }

  testing_support::TempDirectory directory_;
  const std::filesystem::path file_ = directory_.path() / "cache" / "costs.txt";
  std::unique_ptr<Kernels> kernels_ = MakeKernels("cpu", {.threads = 2});
};

TEST_F(PlanningCostsTest, TextKeepsCostsAndNothingElse) {
  const CostTerms seconds = {1e-6, 0.0, 3.25e-6, 0.0, 1.5e-9, 2e-9, 0.5, 1e-12, 0.0, 1.0};
  EXPECT_EQ(CostsOfText(TextOfCosts(seconds)), seconds);
  for (const char* text :
       {"", "1", "1 2 3 4 5 6 7 8 9 x", "0 0 0 0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0 0 -1",
        "0 0 0 0 0 0 0 0 0 2", "0 0 0 0 0 0 0 0 0 nan", "0 0 0 0 0 0 0 0 0 inf", "measured"}) {
    EXPECT_EQ(CostsOfText(text), std::nullopt) << text;
  }
}

TEST_F(PlanningCostsTest, WithoutMeasuringCostsAreBuiltInAndNothingIsWritten) {
  const PlanningCosts found = Find(false);
  EXPECT_EQ(found.source, "built in");
  EXPECT_EQ(found.costs.seconds, BuiltInCosts(*kernels_, kShape).seconds);
  EXPECT_FALSE(std::filesystem::exists(file_));
}

// On a busy machine a measurement may be worth nothing; then nothing is kept.
TEST_F(PlanningCostsTest, WhatWasMeasuredIsKeptAndFoundAgain) {
  const PlanningCosts measured = Find(true);
  for (const double seconds : measured.costs.seconds) {
    EXPECT_GE(seconds, 0.0);
    EXPECT_LT(seconds, 1.0);
  }
  const PlanningCosts again = Find(false);
  if (measured.source == "measured now") {
    EXPECT_THAT(again.source, StartsWith("measured before, kept in "));
    for (size_t i = 0; i < measured.costs.seconds.size(); ++i) {
      EXPECT_NEAR(again.costs.seconds[i], measured.costs.seconds[i],
                  1e-5 * measured.costs.seconds[i]);
    }
  } else {
    EXPECT_THAT(measured.source, StartsWith("built in; a measurement is not to be trusted"));
    EXPECT_EQ(again.source, "built in");
  }
}

TEST_F(PlanningCostsTest, KeptCostsAreOfOneMachineShapeAndKindOfNumbers) {
  const std::string key = PlanningCostsKey(*kernels_, kShape);
  EXPECT_NE(PlanningCostsKey(*kernels_, {8, 2, 16}), key);
  EXPECT_NE(PlanningCostsKey(*MakeKernels("cpu", {.threads = 1}), kShape), key);
  const KernelOptions mixed{.precision = Precision::kMixed, .kv_type = KvType::kF16, .threads = 2};
  EXPECT_NE(PlanningCostsKey(*MakeKernels("cpu", mixed), kShape), key);
  KeepPlanningCosts(file_, key, {1e-6, 0, 0, 0, 1e-6, 1e-9, 1e-6, 1e-9, 1e-9, 1e-9});
  EXPECT_THAT(Find(false).source, StartsWith("measured before"));
  EXPECT_EQ(Find(false).costs[CostTerm::kStep], 1e-6);
  EXPECT_EQ(FindPlanningCosts(*kernels_, {8, 2, 16}, false, file_).source, "built in");
}

TEST_F(PlanningCostsTest, FilesOfOthersAndBrokenOnesAreIgnored) {
  const std::string key = PlanningCostsKey(*kernels_, kShape);
  KeepPlanningCosts(file_, key, {1e-6, 0, 0, 0, 1e-6, 1e-9, 1e-6, 1e-9, 1e-9, 1e-9});
  const std::string whole = Content();
  Write("another program's\n");
  EXPECT_EQ(Find(false).source, "built in");
  Write(whole.substr(0, whole.size() - 10));  // torn
  EXPECT_EQ(Find(false).source, "built in");
  std::string other = whole;
  other.replace(other.find("banyan 0"), 8, "banyan X");  // another version
  Write(other);
  EXPECT_EQ(Find(false).source, "built in");
  std::string broken = whole;
  broken.replace(broken.rfind("1e-06"), 5, "hello");
  Write(broken);
  EXPECT_THAT(Find(false).source, HasSubstr("cannot be read"));
  EXPECT_EQ(Find(false).costs.seconds, BuiltInCosts(*kernels_, kShape).seconds);
  Write(whole);
  EXPECT_THAT(Find(false).source, StartsWith("measured before"));
}

TEST_F(PlanningCostsTest, AMachineThatIsAlwaysBusyIsMeasuredThreeTimes) {
  KeepPlanningCosts(file_, PlanningCostsKey(*kernels_, kShape), {});
  const std::string kept = Content(), zeros = TextOfCosts({});
  const auto with = [&](const std::string& text) {
    std::string content = kept;
    Write(content.replace(content.rfind(zeros), zeros.size(), text));
  };
  with("tried 3");
  const std::string before = Content();
  EXPECT_THAT(Find(true).source, StartsWith("built in; 3 measurements were not to be trusted"));
  EXPECT_EQ(Content(), before);
  with("tried 2");
  EXPECT_EQ(Find(false).source, "built in");
  const std::string now = Find(true).source;  // by this machine's load
  EXPECT_THAT(Content(), HasSubstr(now == "measured now" ? "e-" : "tried 3"));
  with("tried 22");
  EXPECT_THAT(Find(false).source, HasSubstr("cannot be read"));
}

TEST_F(PlanningCostsTest, TheReferenceHasNone) {
  const auto reference = MakeKernels("reference", {});
  const PlanningCosts found = FindPlanningCosts(*reference, kShape, true, file_);
  EXPECT_EQ(found.costs.seconds, CostTerms{});
  EXPECT_FALSE(std::filesystem::exists(file_));
}

}  // namespace
}  // namespace banyan
