// What others do to a store: change bits, put pipes and links into it, forbid writing.
#include <gtest/gtest.h>
#ifdef BANYAN_WITH_SQLITE
#include <sqlite3.h>
#endif
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <utility>

#include "base/error.h"
#include "store/block_loader.h"
#include "store/store_fixture.h"

namespace banyan {
namespace {

// This thread obeys file permissions: root without the capabilities to override them. It is still
// the owner, so the test does not depend on who may enter the folders above.
class WithoutOverride {
 public:
  WithoutOverride() {
    if (::geteuid() == 0) Set(false);
  }
  ~WithoutOverride() {
    if (::geteuid() == 0) Set(true);
  }

 private:
  static void Set(bool effective) {
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> data = {};
    ASSERT_EQ(::syscall(SYS_capget, &header, data.data()), 0);
    for (const int capability : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH}) {
      const std::uint32_t bit = 1u << capability;
      data[0].effective &= ~bit;
      if (effective) data[0].effective |= data[0].permitted & bit;
    }
    EXPECT_EQ(::syscall(SYS_capset, &header, data.data()), 0);
  }
};

TEST_F(StoreTest, AReadOnlyStoreIsRead) {
  const SavedRun run = RandomRun(1, 200);
  Add(run);
  constexpr fs::perms kReaders =
      fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read;
  constexpr fs::perms kEnter =
      fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
  std::vector<fs::path> folders = {folder(), directory_.path()};
  for (const auto& entry : fs::recursive_directory_iterator(folder())) {
    fs::permissions(entry.path(), entry.is_directory() ? kReaders | kEnter : kReaders);
  }
  for (const fs::path& path : folders) fs::permissions(path, kReaders | kEnter);
  {
    const WithoutOverride obedient;
    for (const Access access : {Access::kRead, Access::kWriteIfFree}) {
      const auto store = Open(access);
      EXPECT_FALSE(store->writable());
      EXPECT_TRUE(store->parts().Has(NamesOf(run).back(), KvType::kF16));
      EXPECT_EQ(store->Verify(false, {}).segments, 1);
    }
    EXPECT_THROW(Open(Access::kWrite), Error);
  }
  for (const fs::path& path : folders) fs::permissions(path, fs::perms::owner_all);
  for (const auto& entry : fs::recursive_directory_iterator(folder())) {
    if (entry.is_directory()) fs::permissions(entry.path(), fs::perms::owner_all);
  }
}

// Tokens of documents are in it.
TEST_F(StoreTest, NobodyElseMayRead) {
  const mode_t before = ::umask(0);
  Add(RandomRun(1, 200));
  ::umask(before);
  constexpr fs::perms kOthers = fs::perms::group_all | fs::perms::others_all;
  EXPECT_EQ(fs::status(folder()).permissions() & kOthers, fs::perms::none);
  for (const auto& entry : fs::recursive_directory_iterator(folder())) {
    EXPECT_EQ(entry.status().permissions() & kOthers, fs::perms::none) << entry.path();
  }
}

TEST_F(StoreTest, PipesAndLinksAreNoSegments) {
  const SavedRun run = RandomRun(1, 200), other = RandomRun(2, 130);
  Add(run);
  Add(other);
  const fs::path away = directory_.path() / "away.kv";
  fs::rename(PathOf(other), away);
  fs::create_symlink(away, PathOf(other));
  fs::remove(PathOf(run));
  ASSERT_EQ(::mkfifo(PathOf(run).c_str(), 0600), 0);
  {  // none of it is waited for
    const auto store = Open(Access::kRead);
    EXPECT_EQ(store->Verify(false, {}).damaged.size(), 2u);
  }
  Open()->Collect();
  EXPECT_FALSE(Has(run));
  EXPECT_TRUE(fs::exists(away));
  fs::remove(folder() + "/lock");
  fs::create_symlink(away, folder() + "/lock");
  EXPECT_THROW(Open(), Error);
  EXPECT_GT(fs::file_size(away), 0u);
}

// Whatever bit of the index changes, a reader finds its blocks or does not find them.
TEST_F(StoreTest, ADamagedIndexIsAMiss) {
  const SavedRun run = RandomRun(1, 300);
  Add(run);
  const std::string index = folder() + "/index.sqlite";
  std::ifstream file(index, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(fs::exists(index + "-wal"));
  const PageForm form = FormOf(kShape, KvType::kF16);
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string changed = bytes;
    // The first page, with the schema, more often than the others.
    const size_t at = random() % (round % 2 == 0 ? 1024 : changed.size());
    changed[at] = static_cast<char>(changed[at] ^ (1 << (random() % 8)));
    std::ofstream(index, std::ios::binary) << changed;
    for (const char* ending : {"-wal", "-shm"}) fs::remove(index + ending);
    std::shared_ptr<KvStore> store;
    try {
      store = Open(Access::kRead);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFormat) << at << ": " << error.what();
      continue;  // computed, and said (tasks/job/kv_use.cc)
    }
    for (const Digest& name : NamesOf(run)) {
      const auto place = store->parts().Find(name, KvType::kF16);
      if (!place) continue;
      EXPECT_EQ(place->file.find(".."), std::string::npos);
      BlockLoader loader(1, 1 << 20);
      BlockWish wish{1, store->parts().PathOf(place->file), place->block, form, form};
      if (wish.block.bytes > 1 << 20) continue;  // the engine asks for blocks of its own size alone
      loader.Ask(wish);
      for (const LoadedBlock& block : loader.Take(10.0)) {
        EXPECT_TRUE(!block.good || !block.bytes.empty());
      }
    }
  }
  std::ofstream(index, std::ios::binary) << bytes.substr(0, 100) + std::string(3000, 'x');
  Open();  // whoever writes makes it anew
  EXPECT_TRUE(Has(run));
}

#ifdef BANYAN_WITH_SQLITE
// An index whose tables are views or have triggers computes without end, or something else, when it
// is read: it is none.
TEST_F(StoreTest, AnIndexThatComputesIsDamaged) {
  const SavedRun run = RandomRun(1, 300);
  const std::string index = folder() + "/index.sqlite";
  for (const char* sql :
       {"DROP TABLE segment; CREATE VIEW segment AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL "
        "SELECT n + 1 FROM c) SELECT n AS number, 'x' AS file, '' AS label, '' AS model, '' AS "
        "root, 0 AS type, 1 AS exact, 0 AS key_loss, 0 AS value_loss, 1 AS tokens, 0 AS "
        "first_position, 1 AS bytes, 0 AS created, 0 AS used, 0 AS pinned FROM c;",
        "DROP TABLE setting; CREATE TABLE setting (name TEXT, value AS (zeroblob(900000000)) "
        "VIRTUAL); INSERT INTO setting (name) VALUES ('limit');"}) {
    fs::remove_all(folder());
    Add(run);
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(index.c_str(), &database), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
    Open();  // whoever writes makes it anew
    EXPECT_TRUE(Has(run)) << sql;
  }
}
#endif

// Nothing that a loader meets ends the process.
TEST_F(StoreTest, ALoaderSurvivesWhatCannotBe) {
  const SavedRun run = RandomRun(1, 128);
  Add(run);
  const PageForm form = FormOf(kShape, KvType::kF16);
  BlockLoader loader(2, 1 << 20);
  std::uint64_t ticket = 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const std::int64_t huge = -2;  // sanitizers end the process where memory is refused
#else
  const std::int64_t huge = std::int64_t{1} << 60;
#endif
  for (const std::int64_t bytes : {huge, std::int64_t{-1}, std::int64_t{0}, form.head_bytes + 1}) {
    StoredBlock block;
    block.bytes = bytes;
    block.tokens = 128;
    loader.Ask({ticket++, PathOf(run), block, form, form});
  }
  int came = 0;
  while (came < 4) {
    std::vector<LoadedBlock> blocks = loader.Take(10.0);
    ASSERT_FALSE(blocks.empty());
    for (LoadedBlock& block : blocks) {
      EXPECT_FALSE(block.good);
      loader.Recycle(std::move(block));
      ++came;
    }
  }
}

TEST_F(StoreTest, WhatIsCollectedMeanwhileIsNotDamaged) {
  Add(RandomRun(1, 200));
  Add(RandomRun(2, 130));
  const auto reader = Open(Access::kRead);
  const auto writer = Open();
  bool first = true;
  const KvStoreCheck check = reader->Verify(false, [&](std::int64_t, std::int64_t) {
    if (!std::exchange(first, false)) return;
    for (const StoredSegment& segment : writer->List()) writer->Remove(segment.id);
  });
  EXPECT_EQ(check.segments, 1);
  EXPECT_TRUE(check.damaged.empty());
}

}  // namespace
}  // namespace banyan
