#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "tasks/job/job_rows.h"

namespace banyan {

namespace {

// Runs over records "ID:LINE" with what earlier runs did; notes what this one does.
struct Runs {
  std::set<Key128> done;
  std::multiset<std::string> rows;

  void Run(const std::vector<std::string>& records, size_t most = 1000) {
    RecordLedger ledger;
    for (const std::string& record : records) {
      const auto verdict = ledger.Judge(record.substr(0, record.find(':')), record,
                                        [&](const Key128& key) { return done.contains(key); });
      if (verdict.done || most == 0) continue;
      --most;
      EXPECT_TRUE(done.insert(verdict.key).second) << record;
      rows.insert(record + (verdict.duplicate ? " error" : " answer"));
    }
  }
};

TEST(RecordLedger, TheFirstOfAnIdIsAsked) {
  Runs runs;
  runs.Run({"a:1", "b:1", "a:2", "a:1", "a:1"});
  EXPECT_EQ(runs.rows, (std::multiset<std::string>{"a:1 answer", "b:1 answer", "a:2 error",
                                                   "a:1 error", "a:1 error"}));
}

TEST(RecordLedger, EveryRecordHasOneOutcomeWhereverARunStops) {
  const std::vector<std::string> records = {"a:1", "b:1", "a:2", "a:1", "a:1", "a:2", "c:1"};
  Runs whole;
  whole.Run(records);
  for (size_t first = 0; first <= records.size(); ++first) {
    for (size_t second = 0; second <= records.size(); ++second) {
      Runs runs;
      runs.Run(records, first);
      runs.Run(records, second);
      runs.Run(records);
      EXPECT_EQ(runs.rows, whole.rows) << first << " " << second;
    }
  }
}

// Lines without ids are known by their places: equal lines are so many records, and a run that
// stopped after the first of them left the others.
TEST(RecordLedger, EqualLinesWithoutIdsAreRecordsOfTheirOwn) {
  std::set<Key128> done;
  const auto is_done = [&](const Key128& key) { return done.contains(key); };
  RecordLedger first;
  done.insert(first.Judge("1", "line", is_done).key);
  RecordLedger again;
  EXPECT_TRUE(again.Judge("1", "line", is_done).done);
  const auto second = again.Judge("2", "line", is_done);
  EXPECT_FALSE(second.done);
  EXPECT_FALSE(second.duplicate);
}

TEST(RecordLedger, SortedOtherwiseWhatWasSaidStands) {
  Runs runs;
  runs.Run({"a:1", "a:2", "b:1", "b:1"});
  const auto rows = runs.rows;
  runs.Run({"b:1", "a:2", "b:1", "a:1"});
  EXPECT_EQ(runs.rows, rows);
  // The error was written, the answer not yet.
  Runs other;
  other.Run({"a:1", "a:2"});
  RecordLedger ledger;
  other.done.erase(ledger.Judge("a", "a:1", [](const Key128&) { return false; }).key);
  other.rows.clear();
  other.Run({"a:2", "a:1"});
  EXPECT_EQ(other.rows, std::multiset<std::string>{"a:1 answer"});
}

}  // namespace

}  // namespace banyan
