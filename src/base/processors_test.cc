#include "base/processors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace banyan {
namespace {

class ProcessorsTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("processors_" +
               std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "cpu");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  std::optional<int> Quota() const { return ProcessorQuota(folder_.string()); }

  std::filesystem::path folder_;
};

TEST_F(ProcessorsTest, ThereIsAtLeastOne) { EXPECT_GE(UsableProcessors(), 1); }

TEST_F(ProcessorsTest, NoLimit) {
  EXPECT_EQ(Quota(), std::nullopt);
  Write("cpu.max", "max 100000\n");
  EXPECT_EQ(Quota(), std::nullopt);
}

TEST_F(ProcessorsTest, Limits) {
  Write("cpu.max", "400000 100000\n");
  EXPECT_EQ(Quota(), 4);
  Write("cpu.max", "250000 100000\n");
  EXPECT_EQ(Quota(), 3);
  Write("cpu.max", "1000 100000\n");
  EXPECT_EQ(Quota(), 1);
}

TEST_F(ProcessorsTest, OlderKernels) {
  Write("cpu/cpu.cfs_quota_us", "-1\n");
  Write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Quota(), std::nullopt);
  Write("cpu/cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(Quota(), 2);
}

TEST_F(ProcessorsTest, NonsenseIsNoLimit) {
  for (const char* text : {"", "x y", "100000", "100000 0", "-5 100000", "nan 1"}) {
    Write("cpu.max", text);
    EXPECT_EQ(Quota(), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace banyan
