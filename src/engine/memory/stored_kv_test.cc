// Answers over keys and values from disk are bit for bit those over fresh ones, whatever the
// strategy, the memory, the threads, the order of submission and the state of the store's files.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "banyan/kv_store.h"
#include "base/error.h"
#include "load/model_parts.h"
#include "support/temp_directory.h"
#include "support/tiny_model.h"
#include "support/workload.h"

namespace banyan {

namespace {

using testing_support::AnswersByTag;
using testing_support::ExpectSameAnswers;
using testing_support::PageBytes;
using testing_support::RunAll;
using testing_support::TempDirectory;
using testing_support::TinyShape;
using testing_support::Workload;
using StoreAccess = KvStoreOptions::Access;

struct StoreSetting {
  const char* device;
  const char* precision;
  const char* kv_type;
  int threads;
};

void KeepSome(std::vector<PromptSegment>& segments, std::mt19937& random, int percent) {
  for (PromptSegment& segment : segments) {
    if (static_cast<int>(random() % 100) < percent) segment.keep_as = "test";
    KeepSome(segment.below, random, percent);
  }
}

class StoredKvTest : public ::testing::Test {
 protected:
  std::shared_ptr<Model> Load(const StoreSetting& setting, const TinyShape& shape = {},
                              double yarn_factor = 0.0) {
    const std::filesystem::path path =
        directory_.path() / fmt::format("{}-{}.gguf", shape.family, shape.seed);
    if (!std::filesystem::exists(path)) testing_support::WriteTinyGguf(shape, path);
    LoadOptions options;
    options.model = path.string();
    options.device = setting.device;
    options.precision = setting.precision;
    options.kv_type = setting.kv_type;
    options.threads = setting.threads;
    options.yarn_factor = yarn_factor;
    return Model::Load(options);
  }

  std::string folder() const { return (directory_.path() / "store").string(); }

  std::shared_ptr<KvStore> Open(StoreAccess access, int bits = 0) {
    KvStoreOptions options;
    options.directory = folder();
    options.access = access;
    options.bits = bits;
    return KvStore::Open(options);
  }

  static EngineOptions With(const std::shared_ptr<KvStore>& store, bool save) {
    EngineOptions options;
    options.kv_store = store;
    options.kv_save = save;
    return options;
  }

  static AnswersByTag Fresh(const std::shared_ptr<Model>& model,
                            const std::vector<PromptSegment>& requests) {
    EngineOptions options;
    options.strategy = Strategy::kFlat;
    options.one_by_one = true;
    Engine engine(model, options);
    return RunAll(engine, requests);
  }

  Receipt Save(const std::shared_ptr<Model>& model, const std::vector<PromptSegment>& requests,
               int bits = 0) {
    const std::shared_ptr<KvStore> store = Open(StoreAccess::kWrite, bits);
    Engine engine(model, With(store, true));
    RunAll(engine, requests);
    store->Finish();
    return engine.receipt();
  }

  std::vector<std::filesystem::path> Files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             std::filesystem::path(folder()) / "segments")) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  TempDirectory directory_;
  const StoreSetting plain_{"cpu", "mixed", "f16", 1};
};

TEST_F(StoredKvTest, ForestsFromDiskHaveTheBitsOfFreshOnes) {
  static constexpr StoreSetting kStoreSettings[] = {{"cpu", "f32", "", 2},
                                                    {"cpu", "mixed", "f16", 1},
                                                    {"cpu", "mixed", "q8", 2},
                                                    {"reference", "mixed", "bf16", 1}};
  const TinyShape shapes[] = {
      {.family = "llama", .tied = true, .seed = 11},
      {.family = "mistral", .head_dim = 20, .window = 40, .seed = 13},
      {.family = "qwen3", .hidden = 32, .kv_heads = 1, .head_dim = 16, .seed = 12},
      {.family = "llama", .tied = true, .seed = 15}};
  std::mt19937 random(5);
  for (size_t i = 0; i < std::size(kStoreSettings); ++i) {
    SCOPED_TRACE(i);
    const std::shared_ptr<Model> model = Load(kStoreSettings[i], shapes[i]);
    const Workload work(static_cast<std::uint32_t>(20 + i),
                        {.roots = 1, .path_tokens = 450, .root_tokens = 500, .max_new = 3});
    std::vector<PromptSegment> requests = work.requests();
    KeepSome(requests, random, 60);
    const AnswersByTag expected = Fresh(model, requests);
    const Receipt saving = Save(model, requests);
    EXPECT_GT(saving.saved_tokens, 0);
    bool tiny = false;
    for (const Strategy strategy : {Strategy::kAuto, Strategy::kFlat, Strategy::kTree,
                                    Strategy::kStacked, Strategy::kPaged}) {
      tiny = !tiny;
      SCOPED_TRACE(fmt::format("{} {}", StrategyName(strategy), tiny));
      EngineOptions options = With(Open(StoreAccess::kRead), false);
      options.strategy = strategy;
      options.batch_rows = tiny ? 64 : 300;
      options.steps_ahead = tiny ? 1 : 0;
      if (tiny) options.kv_memory = PageBytes(*model) * (work.LargestStreamPages(16) + 3);
      Engine engine(model, options);
      ExpectSameAnswers(expected, RunAll(engine, requests, tiny ? 2 : -1));
      const Receipt receipt = engine.receipt();
      EXPECT_GT(receipt.loaded_tokens, 0);
      EXPECT_EQ(receipt.damaged_segments, 0);
      if (HasFailure()) return;
    }
  }
}

TEST_F(StoredKvTest, WhatIsThereIsNotSavedAgainAndNotComputedAgain) {
  const auto model = Load(plain_);
  PromptSegment root;
  for (int i = 0; i < 300; ++i) root.tokens.push_back(i % 200);
  root.keep_as = "document";
  PromptSegment question;
  question.tokens = {3, 4, 5};
  question.answers.emplace_back().max_new = 2;
  root.below.push_back(question);
  EXPECT_EQ(Save(model, {root}).saved_tokens, 300);
  const Receipt again = Save(model, {root});
  EXPECT_EQ(again.saved_tokens, 0);
  EXPECT_EQ(again.loaded_tokens, 300);
  EXPECT_EQ(again.prefilled_tokens, 3);
  // A document that begins like it: two whole cuts are shared, on disk too.
  root.tokens.resize(290);
  root.tokens.push_back(7);
  const Receipt like = Save(model, {root});
  EXPECT_EQ(like.loaded_tokens, 256);
  EXPECT_EQ(like.saved_tokens, 35);
}

TEST_F(StoredKvTest, DamageIsComputedAnew) {
  const auto model = Load(plain_);
  const Workload work(3, {.roots = 2, .path_tokens = 600, .root_tokens = 700, .max_new = 4});
  std::vector<PromptSegment> requests = work.requests();
  std::mt19937 random(6);
  KeepSome(requests, random, 100);
  const AnswersByTag expected = Fresh(model, requests);
  for (int kind = 0; kind < 5; ++kind) {
    SCOPED_TRACE(kind);
    std::filesystem::remove_all(folder());
    Save(model, requests);
    const std::vector<std::filesystem::path> files = Files();
    ASSERT_GT(files.size(), 1u);
    for (size_t i = 0; i < files.size(); i += 2) {
      const auto size = static_cast<std::int64_t>(std::filesystem::file_size(files[i]));
      if (kind == 0) std::filesystem::remove(files[i]);
      if (kind == 1) std::filesystem::resize_file(files[i], static_cast<std::uintmax_t>(size / 2));
      if (kind == 2)
        std::filesystem::copy_file(files[(i + 1) % files.size()], files[i],
                                   std::filesystem::copy_options::overwrite_existing);
      if (kind >= 3) {  // one bit of a block
        std::fstream file(files[i], std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(size - 1 - static_cast<std::int64_t>(random() % 64));
        const auto place = file.tellg();
        const char byte = static_cast<char>(file.get());
        file.seekp(place);
        file.put(static_cast<char>(byte ^ 16));
      }
    }
    const std::shared_ptr<KvStore> store =
        Open(kind == 4 ? StoreAccess::kWrite : StoreAccess::kRead);
    Engine engine(model, With(store, kind == 4));
    ExpectSameAnswers(expected, RunAll(engine, requests));
    EXPECT_GT(engine.receipt().damaged_segments, 0);
    if (kind != 4) continue;
    store->Finish();  // what was damaged was replaced
    EXPECT_TRUE(store->Verify(false, {}).damaged.empty());
    EXPECT_EQ(Files().size(), files.size());
  }
}

TEST_F(StoredKvTest, OtherModelsAndSettingsFindNothing) {
  const auto model = Load(plain_);
  const Workload work(4, {.roots = 1, .path_tokens = 300, .root_tokens = 400, .max_new = 3});
  std::vector<PromptSegment> requests = work.requests();
  std::mt19937 random(7);
  KeepSome(requests, random, 100);
  Save(model, requests);
  const std::shared_ptr<Model> others[] = {
      Load(plain_, {.seed = 2}),               // other weights
      Load(plain_, {}, /*yarn_factor=*/2.0),   // other rotations
      Load({"cpu", "mixed", "bf16", 1}),       // other types
      Load({"cpu", "f32", "", 1}),             //
      Load({"reference", "mixed", "f16", 1}),  // other arithmetic
  };
  for (const std::shared_ptr<Model>& other : others) {
    Engine engine(other, With(Open(StoreAccess::kRead), false));
    RunAll(engine, requests);
    EXPECT_EQ(engine.receipt().loaded_tokens, 0);
  }
  // As many threads as one likes; the text side does not matter either.
  Engine same(Load({"cpu", "mixed", "f16", 2}), With(Open(StoreAccess::kRead), false));
  RunAll(same, requests);
  EXPECT_GT(same.receipt().loaded_tokens, 0);
}

TEST_F(StoredKvTest, EightBitsAreFoundOnlyByWhoAsksForThem) {
  const auto model = Load(plain_);
  const Workload work(8, {.roots = 1, .path_tokens = 500, .root_tokens = 600, .max_new = 3});
  std::vector<PromptSegment> requests = work.requests();
  std::mt19937 random(7);
  KeepSome(requests, random, 100);
  Save(model, requests, 8);
  {
    Engine exact(model, With(Open(StoreAccess::kRead), false));
    ExpectSameAnswers(Fresh(model, requests), RunAll(exact, requests));
    EXPECT_EQ(exact.receipt().loaded_tokens, 0);
  }
  const std::shared_ptr<KvStore> store = Open(StoreAccess::kRead, 8);
  Engine rounded(model, With(store, false));
  RunAll(rounded, requests);
  EXPECT_GT(rounded.receipt().loaded_tokens, 0);
  for (const StoredSegment& segment : store->List()) {
    EXPECT_FALSE(segment.exact);
    EXPECT_GT(segment.key_loss, 1e-4);
    EXPECT_LT(segment.key_loss, 0.02);
    EXPECT_LT(segment.value_loss, 0.02);
  }
}

TEST_F(StoredKvTest, ExpertsReadTheirDocumentsFromDisk) {
  const auto model = Load(plain_);
  std::mt19937 random(9);
  const auto tokens = [&](int count) {
    std::vector<TokenId> some;
    for (int i = 0; i < count; ++i) some.push_back(static_cast<TokenId>(random() % 200));
    return some;
  };
  PromptSegment root, question;
  root.tokens = tokens(20);
  root.keep_as = "system";
  question.tokens = tokens(9);
  for (int k = 0; k < 6; ++k) {
    PromptSegment& document = root.below.emplace_back();
    document.tokens = tokens(100 + 40 * k);
    document.keep_as = fmt::format("document {}", k);
    document.below.push_back(question);
    document.below.back().experts.push_back({0, 0.5});
  }
  question.answers.emplace_back().max_new = 8;
  question.answers.back().panel = PanelOptions();
  root.below.push_back(question);
  Engine fresh(model, {});
  const AnswersByTag expected = RunAll(fresh, {root});
  Save(model, {root});
  for (const int rows : {512, 16}) {
    EngineOptions options = With(Open(StoreAccess::kRead), false);
    options.batch_rows = rows;
    Engine engine(model, options);
    ExpectSameAnswers(expected, RunAll(engine, {root}));
    EXPECT_EQ(engine.receipt().loaded_tokens, 20 + 6 * 100 + 40 * 15);
  }
}

// Requests come, are cancelled and give their memory back while their documents are being loaded.
TEST_F(StoredKvTest, CancelledAndCrowdedWhileLoading) {
  const auto model = Load(plain_);
  const Workload work(14, {.roots = 4, .path_tokens = 500, .root_tokens = 700, .max_new = 4});
  std::vector<PromptSegment> requests = work.requests();
  std::mt19937 random(10);
  KeepSome(requests, random, 70);
  const AnswersByTag expected = Fresh(model, requests);
  Save(model, requests);
  EngineOptions options = With(Open(StoreAccess::kRead), false);
  options.kv_memory = PageBytes(*model) * (work.LargestStreamPages(16) + 8);
  Engine engine(model, options);
  engine.Start();
  int whole = 0;
  for (int round = 0; round < 30; ++round) {
    const PromptSegment& request = requests[random() % requests.size()];
    const auto queue = std::make_shared<AnswerQueue>();
    const RequestId id = engine.Submit(request, {.queue = queue});
    if (random() % 3 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
      engine.Cancel(id);
    }
    ASSERT_TRUE(engine.WaitUntilIdle(60.0));
    for (const AnswerEvent& event : queue->Take()) {
      if (!event.ended || event.answer.finish == FinishReason::kCancelled) continue;
      testing_support::ExpectSameAnswer(expected.at(event.tag), event.answer);
      ++whole;
    }
  }
  EXPECT_GT(whole, 20);
  EXPECT_GT(engine.receipt().loaded_tokens, 0);
}

}  // namespace

}  // namespace banyan
