// Measured attention reads what it should.
#include <gtest/gtest.h>

#include "banyan/error.h"
#include "measure_attention.h"

namespace banyan {
namespace {

AttentionBench SmallBench(const std::string& device) {
  LoadOptions load;
  load.device = device;
  load.threads = 2;
  return AttentionBench(
      load, {.heads = 4, .kv_heads = 2, .head_dim = 16, .runs = 2, .empty_caches = false});
}

const std::vector<Strategy> kAll = {Strategy::kTree, Strategy::kPaged, Strategy::kStacked,
                                    Strategy::kAuto};

TEST(AttentionBench, ComparesAndTimesEveryStrategy) {
  for (const char* device : {"reference", "cpu"}) {
    AttentionBench bench = SmallBench(device);
    const AttentionReport report = bench.Measure({{{1, 20}, {3, 150}, {2, 9}}}, kAll);
    EXPECT_TRUE(report.equal) << device << ": " << report.difference;
    EXPECT_EQ(report.rows, 6);
    EXPECT_EQ(report.keys, 20 + 3 * 150 + 6 * 9);
    ASSERT_EQ(report.times.size(), kAll.size());
    for (const AttentionTime& time : report.times) {
      EXPECT_GE(time.median_seconds, time.least_seconds);
      EXPECT_GE(time.keys_read, report.keys);
    }
    EXPECT_EQ(report.times[0].keys_read, report.keys);
    EXPECT_EQ(report.times[1].keys_read, 6 * (20 + 150 + 9));
  }
}

TEST(AttentionBench, PrefillHasARowForEveryToken) {
  AttentionBench bench = SmallBench("cpu");
  const AttentionReport report = bench.Measure({{{2, 130}}, 130}, kAll);
  EXPECT_TRUE(report.equal) << report.difference;
  EXPECT_EQ(report.rows, 260);
}

TEST(AttentionBench, RefusesWhatIsNotAForest) {
  AttentionBench bench = SmallBench("cpu");
  const std::vector<AttentionTask> bad = {{{}, 1},       {{{0, 5}}, 1}, {{{1, 0}}, 1},
                                          {{{1, 5}}, 6}, {{{1, 5}}, 0}, {{{1 << 20, 1 << 20}}, 1}};
  for (const AttentionTask& task : bad) {
    try {
      bench.Measure(task, kAll);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
    }
  }
}

}  // namespace
}  // namespace banyan
