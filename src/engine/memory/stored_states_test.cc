// The KV store of models whose layers keep states: a text comes back whole, with the state after
// it, and answers have the bits of fresh ones; what is damaged is computed again.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "banyan/kv_store.h"
#include "engine/memory/engine_memory.h"
#include "load/model_parts.h"
#include "support/temp_directory.h"
#include "support/tiny_states.h"
#include "support/workload.h"

namespace banyan {
namespace {

using testing_support::AnswersByTag;
using testing_support::ExpectSameAnswers;
using testing_support::RunAll;
using testing_support::StateFamilies;
using testing_support::TempDirectory;
using testing_support::TinyStates;
using testing_support::Workload;
using StoreAccess = KvStoreOptions::Access;

void KeepAll(std::vector<PromptSegment>& segments) {
  for (PromptSegment& segment : segments) {
    segment.keep_as = "text";
    KeepAll(segment.below);
  }
}

class StoredStates : public ::testing::Test {
 protected:
  std::shared_ptr<Model> Load(const std::string& family, const char* device = "cpu") {
    LoadOptions options;
    options.model = TinyStates(family, 3).Write(directory_.path() / family).string();
    options.device = device;
    options.precision = "mixed";
    options.threads = 1;
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
    Engine engine(model, {});
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

  // A document of `tokens` tokens that is kept, and a question about it.
  static PromptSegment Document(int tokens) {
    PromptSegment document;
    for (int i = 0; i < tokens; ++i) document.tokens.push_back((5 + 7 * i) % 190);
    document.keep_as = "document";
    PromptSegment& question = document.below.emplace_back();
    question.tokens = {3, 4, 5};
    question.answers.emplace_back().max_new = 6;
    return document;
  }

  void ExpectForestsFromDisk(const std::shared_ptr<Model>& model) {
    std::filesystem::remove_all(folder());
    const Workload work(21, {.roots = 1, .path_tokens = 300, .root_tokens = 500, .max_new = 3});
    std::vector<PromptSegment> requests = work.requests();
    KeepAll(requests);
    const AnswersByTag expected = Fresh(model, requests);
    EXPECT_GT(Save(model, requests).saved_tokens, 0);
    for (const Strategy strategy : {Strategy::kAuto, Strategy::kFlat, Strategy::kTree}) {
      EngineOptions options = With(Open(StoreAccess::kRead), false);
      options.strategy = strategy;
      options.batch_rows = strategy == Strategy::kFlat ? 17 : 300;
      Engine engine(model, options);
      ExpectSameAnswers(expected, RunAll(engine, requests));
      EXPECT_GT(engine.receipt().loaded_tokens, 0);
      EXPECT_EQ(engine.receipt().damaged_segments, 0);
    }
    EXPECT_TRUE(Open(StoreAccess::kRead)->Verify(false, {}).damaged.empty());
  }

  const TempDirectory directory_;
};

TEST_F(StoredStates, ForestsFromDiskHaveTheBitsOfFreshOnes) {
  for (const std::string& family : StateFamilies()) {
    SCOPED_TRACE(family);
    ExpectForestsFromDisk(Load(family));
  }
}

TEST_F(StoredStates, ForestsFromDiskOnADevice) {
  for (const std::string& family : StateFamilies()) {
    SCOPED_TRACE(family);
    std::shared_ptr<Model> model;
    try {
      model = Load(family, "cuda");
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
      GTEST_SKIP() << error.what();
    }
    ExpectForestsFromDisk(model);
  }
}

TEST_F(StoredStates, WhatIsThereIsNotComputedAgain) {
  const auto model = Load("qwen3_5_text");
  const int piece = PieceTokens(model->parts());
  const int tokens = piece + 200;  // two nodes, each with a state
  EXPECT_EQ(Save(model, {Document(tokens)}).saved_tokens, tokens);
  EXPECT_EQ(Files().size(), 2u);
  const Receipt again = Save(model, {Document(tokens)});
  EXPECT_EQ(again.saved_tokens, 0);
  EXPECT_EQ(again.loaded_tokens, tokens);
  EXPECT_EQ(again.prefilled_tokens, 3);
  // A document that is the first 256 tokens: its cuts are there, and no state after them.
  std::filesystem::remove_all(folder());
  Save(model, {Document(400)});
  const AnswersByTag expected = Fresh(model, {Document(256)});
  const std::shared_ptr<KvStore> store = Open(StoreAccess::kWrite);
  Engine shorter(model, With(store, true));
  ExpectSameAnswers(expected, RunAll(shorter, {Document(256)}));
  store->Finish();
  EXPECT_EQ(shorter.receipt().loaded_tokens, 0);
  EXPECT_EQ(shorter.receipt().saved_tokens, 128);  // with the cut before the state
  for (const int loaded : {256, 400}) {
    Engine engine(model, With(Open(StoreAccess::kRead), false));
    ExpectSameAnswers(Fresh(model, {Document(loaded)}), RunAll(engine, {Document(loaded)}));
    EXPECT_EQ(engine.receipt().loaded_tokens, loaded);
  }
}

TEST_F(StoredStates, DamageIsComputedAnew) {
  const auto model = Load("granitemoehybrid");
  const std::vector<PromptSegment> requests = {Document(300)};
  const AnswersByTag expected = Fresh(model, requests);
  enum class Damage { kGone, kCut, kBlock, kState };
  for (const Damage damage : {Damage::kGone, Damage::kCut, Damage::kBlock, Damage::kState}) {
    SCOPED_TRACE(static_cast<int>(damage));
    std::filesystem::remove_all(folder());
    Save(model, requests);
    ASSERT_EQ(Files().size(), 1u);
    const std::filesystem::path path = Files().front();
    const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
    if (damage == Damage::kGone) {
      std::filesystem::remove(path);
    } else if (damage == Damage::kCut) {  // in the state, which comes last
      std::filesystem::resize_file(path, static_cast<std::uintmax_t>(size - 5));
    } else {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      const std::int64_t place = damage == Damage::kBlock ? 4096 + 10 : size - 10;
      file.seekg(place);
      const char byte = static_cast<char>(file.get());
      file.seekp(place);
      file.put(static_cast<char>(byte ^ 16));
    }
    if (damage != Damage::kGone) {
      EXPECT_EQ(Open(StoreAccess::kRead)->Verify(false, {}).damaged.size(), 1u);
    }
    {
      Engine engine(model, With(Open(StoreAccess::kRead), false));
      ExpectSameAnswers(expected, RunAll(engine, requests));
      EXPECT_EQ(engine.receipt().damaged_segments, 1);
      EXPECT_EQ(engine.receipt().loaded_tokens, 0);
    }
    Save(model, requests);  // replaces it
    EXPECT_TRUE(Open(StoreAccess::kRead)->Verify(false, {}).damaged.empty());
    Engine engine(model, With(Open(StoreAccess::kRead), false));
    ExpectSameAnswers(expected, RunAll(engine, requests));
    EXPECT_EQ(engine.receipt().loaded_tokens, 300);
  }
}

TEST_F(StoredStates, AnIndexIsMadeAnewFromTheFiles) {
  const auto model = Load("lfm2");
  Save(model, {Document(300)});
  for (const char* ending : {"", "-wal", "-shm"}) {
    std::filesystem::remove(folder() + "/index.sqlite" + ending);
  }
  const Receipt receipt = Save(model, {Document(300)});
  EXPECT_EQ(receipt.loaded_tokens, 300);
  EXPECT_EQ(receipt.saved_tokens, 0);
}

TEST_F(StoredStates, EightBitsRoundKeysAndNoState) {
  const auto model = Load("lfm2");
  Save(model, {Document(300)}, 8);
  Engine exact(model, With(Open(StoreAccess::kRead), false));
  RunAll(exact, {Document(300)});
  EXPECT_EQ(exact.receipt().loaded_tokens, 0);
  Engine rounded(model, With(Open(StoreAccess::kRead, 8), false));
  RunAll(rounded, {Document(300)});
  EXPECT_EQ(rounded.receipt().loaded_tokens, 300);
}

}  // namespace
}  // namespace banyan
