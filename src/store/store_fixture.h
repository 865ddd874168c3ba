// A store in a folder of its own, and runs of tokens to keep in it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "banyan/kv_store.h"
#include "plan/attention_plan.h"
#include "store/segment_file.h"
#include "store/store_parts.h"
#include "support/temp_directory.h"

namespace banyan {

namespace fs = std::filesystem;
using Access = KvStoreOptions::Access;
using testing_support::TempDirectory;

inline const KvShape kShape{2, 3, 20};

// A run of tokens whose bytes are drawn.
inline SavedRun RandomRun(std::uint32_t seed, int tokens, const RunPlace& place = {}) {
  std::mt19937 random(seed);
  SavedRun run;
  run.header.place = place;
  run.header.model = R"({"weights":"none"})";
  run.header.label = fmt::format("run {}", seed);
  run.header.shape = kShape;
  run.header.type = KvType::kF16;
  for (int i = 0; i < tokens; ++i) {
    run.header.tokens.push_back(static_cast<TokenId>(random() % 1000));
  }
  const PageForm form = FormOf(kShape, KvType::kF16);
  for (int first = 0; first < tokens; first += kCutKeys) {
    const int pages = (std::min(kCutKeys, tokens - first) + kPageTokens - 1) / kPageTokens;
    for (std::int64_t i = 0; i < pages * form.page_bytes() / 2; ++i) {
      const auto half = static_cast<std::uint16_t>(0x3000 + random() % 0x800);  // about 0.2
      run.bytes.push_back(static_cast<std::byte>(half & 255));
      run.bytes.push_back(static_cast<std::byte>(half >> 8));
    }
  }
  return run;
}

inline std::vector<Digest> NamesOf(const SavedRun& run) {
  return CutNames(run.header.place, run.header.tokens, kCutKeys);
}

class StoreTest : public ::testing::Test {
 protected:
  std::shared_ptr<KvStore> Open(Access access = Access::kWrite, std::int64_t limit = -1,
                                int bits = 0) {
    KvStoreOptions options;
    options.directory = folder();
    options.access = access;
    options.limit = limit;
    options.bits = bits;
    return KvStore::Open(options);
  }
  std::string folder() const { return (directory_.path() / "store").string(); }
  void Add(const SavedRun& run) {
    const auto store = Open();
    store->parts().Save(run);
    store->Finish();
  }
  std::string PathOf(const SavedRun& run) const {
    return folder() + "/" + FileOfSegment(NamesOf(run).front(), KvType::kF16);
  }
  bool Has(const SavedRun& run) {
    return Open(Access::kRead)->parts().Has(NamesOf(run).back(), KvType::kF16);
  }
  TempDirectory directory_;
};

}  // namespace banyan
