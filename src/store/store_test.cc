#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "store/block_loader.h"
#include "store/store_fixture.h"
#include "support/error_message.h"

namespace banyan {
namespace {

TEST_F(StoreTest, BlocksComeBackAsTheyWere) {
  const SavedRun run = RandomRun(1, 300);
  Add(run);
  const auto store = Open(Access::kRead);
  const PageForm form = FormOf(kShape, KvType::kF16);
  BlockLoader loader(2, 1);  // one block at a time
  const std::vector<Digest> names = NamesOf(run);
  ASSERT_EQ(names.size(), 3u);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto place = store->parts().Find(names[i], KvType::kF16);
    ASSERT_TRUE(place);
    loader.Ask({i, store->parts().PathOf(place->file), place->block, form, form});
  }
  std::vector<std::byte> all(run.bytes.size());
  int came = 0;
  while (loader.pending() > 0) {
    for (LoadedBlock& block : loader.Take(1.0)) {
      EXPECT_TRUE(block.good);
      std::ranges::copy(block.bytes, all.begin() + static_cast<std::ptrdiff_t>(block.ticket * 8 *
                                                                               form.page_bytes()));
      loader.Recycle(std::move(block));
      ++came;
    }
  }
  EXPECT_EQ(came, 3);
  EXPECT_EQ(all, run.bytes);
  const std::vector<StoredSegment> listed = store->List();
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].label, "run 1");
  EXPECT_EQ(listed[0].tokens, 300);
  EXPECT_TRUE(listed[0].exact);
  EXPECT_NE(store->Describe(listed[0].id.substr(0, 6)).find("\"segment_offset\":0"),
            std::string::npos);
}

TEST_F(StoreTest, TheLeastRecentlyUsedGoesFirstAndPinsStay) {
  const SavedRun first = RandomRun(1, 128), second = RandomRun(2, 128), third = RandomRun(3, 128);
  Add(first);
  Add(second);
  Add(third);
  const std::int64_t one = static_cast<std::int64_t>(fs::file_size(PathOf(first)));
  {
    const auto store = Open(Access::kRead);
    const auto place = store->parts().Find(NamesOf(first)[0], KvType::kF16);
    store->parts().NoteUse(place->segment);
  }
  {
    const auto store = Open();
    store->Pin(store->List().front().id, true);  // the second: used least, and stays
  }
  const auto store = Open(Access::kWrite, 3 * one + one / 2);
  store->parts().Save(RandomRun(4, 128));
  store->Finish();
  EXPECT_TRUE(Has(first));
  EXPECT_TRUE(Has(second));
  EXPECT_FALSE(Has(third));
  EXPECT_FALSE(fs::exists(PathOf(third)));
  // What a job saved itself is not thrown away by it.
  store->parts().Save(RandomRun(5, 128));
  store->Finish();
  EXPECT_FALSE(Has(first));
  store->parts().Save(RandomRun(6, 128));
  EXPECT_THROW(store->Finish(), Error);
  EXPECT_FALSE(store->parts().saving());
  EXPECT_TRUE(Has(RandomRun(4, 128)));
}

TEST_F(StoreTest, OneWritesAndManyRead) {
  const SavedRun run = RandomRun(1, 200);
  const auto writer = Open();
  EXPECT_THROW(Open(), Error);
  const auto second = Open(Access::kWriteIfFree);
  EXPECT_FALSE(second->writable());
  const auto reader = Open(Access::kRead);
  EXPECT_FALSE(reader->parts().Has(NamesOf(run)[0], KvType::kF16));
  writer->parts().Save(run);
  writer->Finish();
  EXPECT_TRUE(reader->parts().Has(NamesOf(run)[0], KvType::kF16));
  EXPECT_TRUE(second->parts().Has(NamesOf(run)[1], KvType::kF16));
  second->parts().Save(RandomRun(2, 10));  // nothing happens
  EXPECT_FALSE(reader->parts().Has(NamesOf(RandomRun(2, 10))[0], KvType::kF16));
}

TEST_F(StoreTest, WhatAKilledProcessLeftIsPutInOrder) {
  const SavedRun run = RandomRun(1, 200), other = RandomRun(2, 130);
  Add(run);
  Add(other);
  std::ofstream(PathOf(run) + ".new") << "half";
  for (const char* ending : {"", "-wal", "-shm"}) fs::remove(folder() + "/index.sqlite" + ending);
  EXPECT_THROW(Open(Access::kRead), Error);
  Open();  // made anew from the files
  EXPECT_TRUE(Has(run));
  EXPECT_TRUE(Has(other));
  EXPECT_FALSE(fs::exists(PathOf(run) + ".new"));
  std::ofstream(folder() + "/index.sqlite", std::ios::trunc) << std::string(9000, 'x');
  Open();  // it is no index
  EXPECT_TRUE(Has(run));
  fs::remove(PathOf(run));
  Open();
  EXPECT_FALSE(Has(run));
  EXPECT_TRUE(Has(other));
}

TEST_F(StoreTest, VerifyFindsDamageAndCollectRemovesWhatNobodyCanUse) {
  const SavedRun run = RandomRun(1, 200), other = RandomRun(2, 130);
  Add(run);
  Add(other);
  EXPECT_EQ(Open(Access::kRead)->Verify(false, {}).segments, 2);
  fs::resize_file(PathOf(run), fs::file_size(PathOf(run)) - 1);
  std::ofstream(folder() + "/segments/stray.f16.kv") << "no segment";
  KvStoreCheck check = Open(Access::kRead)->Verify(false, {});
  EXPECT_EQ(check.segments, 1);
  ASSERT_EQ(check.damaged.size(), 1u);
  const auto store = Open();
  EXPECT_EQ(store->Verify(true, {}).removed, 1);
  EXPECT_FALSE(fs::exists(PathOf(run)));
  check = store->Collect();
  EXPECT_EQ(check.removed, 1);
  EXPECT_FALSE(fs::exists(folder() + "/segments/stray.f16.kv"));
  EXPECT_EQ(check.segments, 1);
}

TEST_F(StoreTest, EightBitsHalveTheFileAndSayWhatTheyLost) {
  const SavedRun run = RandomRun(1, 256);
  Add(run);
  const auto store = Open(Access::kWrite, -1, 8);
  store->parts().Save(run);
  store->Finish();
  EXPECT_TRUE(store->parts().Has(NamesOf(run)[1], KvType::kQ8));
  EXPECT_TRUE(Has(run));
  const KvStore::Parts::SavedTotals saved = store->parts().saved();
  EXPECT_LT(saved.bytes, static_cast<std::int64_t>(fs::file_size(PathOf(run))) * 6 / 10);
  // 8 bits of numbers about 0.13 to 0.5, spread by four: about 0.8 at most, a step of 0.8 / 127.
  EXPECT_GT(saved.loss.OfKeys(), 1e-3);
  EXPECT_LT(saved.loss.OfKeys(), 8e-3);
}

TEST_F(StoreTest, NoHeaderIsBelievedWithAByteChanged) {
  SavedRun run = RandomRun(1, 150);
  Add(run);
  std::ifstream file(PathOf(run), std::ios::binary);
  std::string bytes(8192, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const auto read = [](const std::string& text) {
    return ReadHeader(std::as_bytes(std::span(text)), "f");
  };
  EXPECT_EQ(read(bytes).tokens.size(), 150u);
  for (size_t i = 0; i < 4096; i += 7) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_THROW(read(changed), Error) << i;
  }
  EXPECT_THROW(read(bytes.substr(0, 100)), Error);
  EXPECT_THROW(read(bytes.substr(0, 20)), Error);
}

// Written by another program, as docs/kv-store.md says.
TEST(SegmentFormat, AHeaderOfTheDocumentedLayoutIsRead) {
  std::ifstream file(std::string(BANYAN_SOURCE_DIR) + "/tests/fuzz/seeds/segment/two_blocks",
                     std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const SegmentHeader header = ReadHeader(std::as_bytes(std::span(bytes)), "two_blocks");
  EXPECT_EQ(header.tokens.size(), 150u);
  EXPECT_EQ(header.place.first_position, 5);
  EXPECT_EQ(header.label, "label");
  ASSERT_EQ(header.blocks.size(), 2u);
  EXPECT_EQ(header.blocks[1].tokens, 22);
  EXPECT_EQ(WriteHeader(header), bytes);
}

// Codes of heads that were not spread would be read as other numbers.
TEST(SegmentFormat, EightBitCodesOfAnEarlierKindAreRefused) {
  SavedRun run = RandomRun(1, 130);
  run.header.type = KvType::kQ8;
  PlaceBlocks(run.header);
  const std::vector<Digest> names = NamesOf(run);
  for (size_t i = 0; i < names.size(); ++i) run.header.blocks[i].name = names[i];
  const std::string header = WriteHeader(run.header);
  std::string contents = header.substr(kFixedHeaderBytes);
  const auto read = [&] {
    return ReadHeaderContents(std::as_bytes(std::span(contents)), header.size(), "f");
  };
  EXPECT_EQ(read().type, KvType::kQ8);
  constexpr size_t kTypeAt = 2 * sizeof(Digest) + 3 * sizeof(std::int32_t);
  ASSERT_EQ(contents[kTypeAt], 4);
  contents[kTypeAt] = 3;
  EXPECT_THROW(read(), Error);
}

// Exported 8-bit codes are the numbers that they stand for: spread back.
TEST_F(StoreTest, ExportedCodesAreNearTheNumbers) {
  const SavedRun run = RandomRun(1, 140);
  const auto store = Open(Access::kWrite, -1, 8);
  store->parts().Save(run);
  store->Finish();
  const std::string path = (directory_.path() / "out.safetensors").string();
  store->Export(store->List()[0].id, path);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  ASSERT_EQ(bytes.size(), 8 + length + 2 * 2 * 140 * 3 * 20 * 4);
  const PageForm form = FormOf(kShape, KvType::kF16);
  std::vector<float> keys(20), values(20);
  for (int token = 0; token < 128; ++token) {  // of the first block, layer 0, head 1
    ReadToken(form,
              run.bytes.data() + token / kPageTokens * form.layer_bytes() + 1 * form.head_bytes,
              token % kPageTokens, keys, values);
    for (size_t d = 0; d < 20; ++d) {
      float found = 0.0f;
      const size_t at = (static_cast<size_t>(token) * 3 + 1) * 20 + d;
      std::memcpy(&found, bytes.data() + 8 + length + 4 * at, 4);
      ASSERT_NEAR(found, keys[d], 0.008f) << token << ", " << d;
    }
  }
}

TEST_F(StoreTest, ExportedTensorsHaveTheNumbers) {
  const SavedRun run = RandomRun(1, 140);
  Add(run);
  const auto store = Open(Access::kRead);
  const std::string path = (directory_.path() / "out.safetensors").string();
  store->Export(store->List()[0].id, path);
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_NE(bytes.find("\"layers.1.values\":{\"dtype\":\"F16\",\"shape\":[140,3,20]"),
            std::string::npos);
  ASSERT_EQ(bytes.size(), 8 + length + 2 * 2 * 140 * 3 * 20 * 2);
  // Layer 1, values, token 135 (page 0 of the second block), head 2, value 17.
  const PageForm form = FormOf(kShape, KvType::kF16);
  const std::int64_t block = 8 * form.page_bytes();
  const std::int64_t in_block = 1 * form.layer_bytes() + 2 * form.head_bytes + form.value_offset() +
                                2 * PageForm::ValueIndex(7, 17);
  const size_t at = 8 + length + (3 * 140 * 60 + 135 * 60 + 2 * 20 + 17) * 2;
  EXPECT_EQ(static_cast<std::byte>(bytes[at]), run.bytes[static_cast<size_t>(block + in_block)]);
}

}  // namespace
}  // namespace banyan
