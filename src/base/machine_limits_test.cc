#include "base/machine_limits.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing_support::TempDirectory;

void Write(const TempDirectory& root, const std::string& name, const std::string& text) {
  const std::filesystem::path path = root.path() / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(MachineLimits, NoneWithoutGroups) {
  const TempDirectory root;
  for (const char* groups : {"", "0::/\n", "nonsense\n", "5:memory:/a\n4:cpu,cpuacct:/a\n0::/b"}) {
    const GroupLimits limits = ReadGroupLimits(groups, root.path());
    EXPECT_FALSE(limits.memory_bytes || limits.processors) << groups;
  }
}

TEST(MachineLimits, VersionTwoTakesTheLeastOfAllGroupsAbove) {
  const TempDirectory root;
  Write(root, "a/b/memory.max", "max\n");
  Write(root, "a/b/cpu.max", "max 100000\n");
  Write(root, "a/memory.max", "629145600\n");
  Write(root, "a/cpu.max", "250000 100000\n");
  EXPECT_EQ(ReadGroupLimits("0::/a/b\n", root.path()).memory_bytes, 629145600);
  EXPECT_EQ(ReadGroupLimits("0::/a/b\n", root.path()).processors, 2.5);
  Write(root, "a/b/memory.high", "1000\n");
  EXPECT_EQ(ReadGroupLimits("0::/a/b\n", root.path()).memory_bytes, 1000);
  EXPECT_FALSE(ReadGroupLimits("0::/c\n", root.path()).memory_bytes);
}

// In a container the root of what is mounted is its own group.
TEST(MachineLimits, GroupsThatCannotBeSeenFromInside) {
  const TempDirectory root;
  Write(root, "memory.max", "4096\n");
  EXPECT_EQ(ReadGroupLimits("0::/docker/0123\n", root.path()).memory_bytes, 4096);
  EXPECT_EQ(ReadGroupLimits("0::/\n", root.path()).memory_bytes, 4096);
}

TEST(MachineLimits, VersionOne) {
  const TempDirectory root;
  const std::string groups = "9:memory:/d/1\n8:cpu,cpuacct:/d/1\n1:name=systemd:/d/1\n";
  Write(root, "memory/d/memory.limit_in_bytes", "9223372036854771712\n");
  Write(root, "memory/d/1/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(ReadGroupLimits(groups, root.path()).memory_bytes);
  Write(root, "memory/d/memory.limit_in_bytes", "700000000\n");
  Write(root, "cpu,cpuacct/d/1/cpu.cfs_quota_us", "-1\n");
  Write(root, "cpu,cpuacct/d/1/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(ReadGroupLimits(groups, root.path()).memory_bytes, 700000000);
  EXPECT_FALSE(ReadGroupLimits(groups, root.path()).processors);
  Write(root, "cpu,cpuacct/d/1/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(ReadGroupLimits(groups, root.path()).processors, 0.5);
}

TEST(MachineLimits, OfThisProcess) {
  EXPECT_GE(UsableMemory(), std::int64_t{1} << 20);
  EXPECT_GE(UsableProcessors(), 1);
}

}  // namespace
}  // namespace banyan
