// The journal: what counts after every kind of damage; the set of keys.
#include "tasks/output/journal.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>

#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing_support::TempDirectory;

JournalRecord RecordOf(int i) {
  JournalRecord record;
  record.key = KeyOf({"record", std::to_string(i)});
  record.bytes = 10;
  record.rows = 2;
  record.error_rows = i % 2;
  record.hash = {static_cast<std::uint64_t>(i), 7};
  record.content = static_cast<std::uint64_t>(1000 + i);
  return record;
}

// Ten records, a commit after each: the output grows by 10 bytes.
std::string MakeJournal(const std::string& path) {
  JournalWriter writer(path);
  JournalContents empty;
  empty.header = Json{{"task", "test"}};
  empty.commits.emplace_back();
  writer.Rewrite(empty);
  for (int i = 0; i < 10; ++i) {
    writer.Add(RecordOf(i));
    writer.Commit({10 * (i + 1), 10 * (i + 1), i == 9, {5, 6}, 0});
  }
  EXPECT_TRUE(writer.StillThere());
  writer.Add(RecordOf(99));  // never committed
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Journal, RoundTrip) {
  const TempDirectory folder;
  const std::string path = (folder.path() / "j").string();
  MakeJournal(path);
  const auto check = [&](const JournalContents& contents) {
    EXPECT_TRUE(contents.usable());
    EXPECT_EQ(contents.header["task"], "test");
    ASSERT_EQ(contents.records.size(), 10u);
    EXPECT_EQ(contents.records[3].key, RecordOf(3).key);
    EXPECT_EQ(contents.records[3].error_rows, 1);
    EXPECT_EQ(contents.records[3].hash, RecordOf(3).hash);
    EXPECT_EQ(contents.records[3].content, 1003u);
    ASSERT_EQ(contents.commits.size(), 11u);
    EXPECT_EQ(contents.commits[4].length, 40);
    EXPECT_EQ(contents.commits[4].records, 4u);
    EXPECT_EQ(contents.commits[4].content, (ContentKey{5, 6}));
    EXPECT_TRUE(contents.complete());
  };
  const JournalContents contents = ReadJournal(path);
  check(contents);
  JournalWriter(path).Rewrite(contents);
  check(ReadJournal(path));
  EXPECT_FALSE(ReadJournal((folder.path() / "absent").string()).exists);
}

// Everything before the damage counts and nothing else; a damaged beginning leaves nothing.
void ExpectPrefix(const TempDirectory& folder, const std::string& bytes) {
  folder.Write("j", bytes);
  const JournalContents contents = ReadJournal((folder.path() / "j").string());
  ASSERT_LE(contents.records.size(), 10u);
  ASSERT_EQ(contents.raw_bytes(), static_cast<std::int64_t>(10 * contents.records.size()));
  for (size_t i = 0; i < contents.records.size(); ++i) {
    ASSERT_EQ(contents.records[i].key, RecordOf(static_cast<int>(i)).key);
  }
  ASSERT_TRUE(contents.usable() || contents.commits.empty());
}

TEST(Journal, TruncationsAndFlippedBytes) {
  const TempDirectory folder;
  const std::string whole = MakeJournal((folder.path() / "j").string());
  for (size_t size = 0; size < whole.size(); size += 3) ExpectPrefix(folder, whole.substr(0, size));
  for (size_t i = 0; i < whole.size(); i += 5) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x20);
    ExpectPrefix(folder, flipped);
  }
}

// Entries that are whole, but not where they were written.
TEST(Journal, EntriesInAnothersPlaceDoNotCount) {
  constexpr size_t kEntry = 64, kEntries = 21;
  const TempDirectory folder;
  const std::string whole = MakeJournal((folder.path() / "j").string());
  const size_t first = whole.size() - kEntries * kEntry;
  for (size_t from = 0; from < kEntries; ++from) {
    for (size_t to = 0; to < kEntries; ++to) {
      std::string copied = whole;
      copied.replace(first + to * kEntry, kEntry, whole, first + from * kEntry, kEntry);
      ExpectPrefix(folder, copied);
      std::string inserted = whole;
      inserted.insert(first + to * kEntry, whole, first + from * kEntry, kEntry);
      ExpectPrefix(folder, inserted);
    }
    std::string removed = whole;
    removed.erase(first + from * kEntry, kEntry);
    ExpectPrefix(folder, removed);
  }
}

TEST(Journal, PlantedLinksAreNotFollowed) {
  const TempDirectory folder;
  const std::string victim = folder.Write("victim", "precious").string();
  const std::string path = (folder.path() / "j").string();
  std::filesystem::create_symlink(victim, path + ".new");
  MakeJournal(path);
  std::ifstream file(victim);
  EXPECT_EQ((std::string{std::istreambuf_iterator<char>(file), {}}), "precious");
  EXPECT_FALSE(std::filesystem::is_symlink(path));
}

TEST(Journal, TellsWhenItsNameMeansAnotherFile) {
  const TempDirectory folder;
  const std::string path = (folder.path() / "j").string();
  JournalWriter writer(path);
  writer.Rewrite({});
  EXPECT_TRUE(writer.StillThere());
  std::filesystem::remove(path);
  EXPECT_FALSE(writer.StillThere());
  folder.Write("j", "another");
  EXPECT_FALSE(writer.StillThere());
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
