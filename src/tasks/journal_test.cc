// The journal: what counts after every kind of damage; the set of keys.
#include "tasks/journal.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>

#include "support/error_message.h"
#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing_support::ErrorMessage;
using testing_support::TempDirectory;

JournalRecord RecordOf(int i) {
  JournalRecord record;
  record.key = KeyOf({"record", std::to_string(i)});
  record.bytes = 10;
  record.rows = 2;
  record.error_rows = i % 2;
  record.hash = {static_cast<std::uint64_t>(i), 7};
  return record;
}

// Ten records, a commit after each: the output grows by 10 bytes.
std::string MakeJournal(const std::string& path) {
  JournalWriter writer(path);
  writer.Rewrite(Json{{"task", "test"}}, {}, {});
  for (int i = 0; i < 10; ++i) {
    writer.Add(RecordOf(i));
    writer.Commit({10 * (i + 1), 10 * (i + 1), i == 9});
  }
  writer.Add(RecordOf(99));  // never committed
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Journal, RoundTrip) {
  const TempDirectory folder;
  const std::string path = (folder.path() / "j").string();
  MakeJournal(path);
  const JournalContents contents = ReadJournal(path, 100);
  EXPECT_TRUE(contents.exists);
  EXPECT_EQ(contents.header["task"], "test");
  ASSERT_EQ(contents.records.size(), 10u);
  EXPECT_EQ(contents.records[3].key, RecordOf(3).key);
  EXPECT_EQ(contents.records[3].error_rows, 1);
  EXPECT_EQ(contents.records[3].hash, RecordOf(3).hash);
  EXPECT_EQ(contents.last.length, 100);
  EXPECT_TRUE(contents.last.complete);
  EXPECT_FALSE(ReadJournal((folder.path() / "absent").string(), 0).exists);
}

TEST(Journal, OnlyWhatTheOutputHoldsCounts) {
  const TempDirectory folder;
  const std::string path = (folder.path() / "j").string();
  MakeJournal(path);
  for (int length = 0; length < 120; ++length) {
    const JournalContents contents = ReadJournal(path, length);
    EXPECT_EQ(contents.records.size(), std::min<size_t>(10, static_cast<size_t>(length) / 10));
    EXPECT_LE(contents.last.length, length);
  }
}

TEST(Journal, TruncationsAndFlippedBytes) {
  const TempDirectory folder;
  const std::string path = (folder.path() / "j").string();
  const std::string whole = MakeJournal(path);
  const auto check = [&](const std::string& bytes) {
    folder.Write("j", bytes);
    try {
      const JournalContents contents = ReadJournal(path, 1000);
      ASSERT_LE(contents.records.size(), 10u);
      ASSERT_EQ(contents.last.length, static_cast<std::int64_t>(10 * contents.records.size()));
      for (size_t i = 0; i < contents.records.size(); ++i) {
        ASSERT_EQ(contents.records[i].key, RecordOf(static_cast<int>(i)).key);
      }
    } catch (const Error& e) {
      ASSERT_EQ(e.kind(), ErrorKind::kFormat);
    }
  };
  for (size_t size = 0; size < whole.size(); size += 3) check(whole.substr(0, size));
  for (size_t i = 0; i < whole.size(); i += 5) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x20);
    check(flipped);
  }
}

TEST(KeySet, AgainstAPlainSet) {
  KeySet set;
  std::set<Key128> plain;
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    const Key128 key = {random() % 5000 * 64 + 1, random() % 3};  // crowded slots
    ASSERT_EQ(set.Insert(key), plain.insert(key).second);
    const Key128 other = {random() % 5000 * 64 + 1, random() % 3};
    ASSERT_EQ(set.Contains(other), plain.contains(other));
    ASSERT_EQ(set.size(), static_cast<std::int64_t>(plain.size()));
  }
  EXPECT_NE(KeyOf({"ab", "c"}), KeyOf({"a", "bc"}));
}

}  // namespace
}  // namespace banyan
