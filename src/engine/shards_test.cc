// One model in several shards: the answers of random forests have the bits of one, whatever the
// number of shards, the model's key heads, precision and type of KV, with hardly any memory and in
// batches that divide prompts anywhere. BANYAN_TEST_ROUNDS=N runs N times as many forests.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "base/error.h"
#include "kernels/kernels.h"
#include "support/temp_directory.h"
#include "support/tiny_model.h"
#include "support/watchdog.h"
#include "support/workload.h"

namespace banyan {
namespace {

using testing_support::AnswersByTag;
using testing_support::ExpectSameAnswers;
using testing_support::RunAll;
using testing_support::TinyShape;
using testing_support::Workload;

const testing_support::WorkloadLimits kForests = {.roots = 3,
                                                  .depth = 3,
                                                  .children = 2,
                                                  .path_tokens = 150,
                                                  .root_tokens = 200,
                                                  .least_answers = 6,
                                                  .max_new = 30,
                                                  .around_groups = false};

const testing_support::WorkloadLimits kFewAnswers = {.roots = 2,
                                                     .depth = 2,
                                                     .children = 2,
                                                     .path_tokens = 100,
                                                     .root_tokens = 150,
                                                     .least_answers = 6,
                                                     .max_new = 12,
                                                     .around_groups = false};

// Answers by one shard are expected of several.
void ExpectSameInShards(const TinyShape& shape, const std::string& precision,
                        const std::string& kv_type, const std::string& device = "cpu",
                        const std::vector<int>& numbers = {2, 3, 4, 8}) {
  const bool on_cpu = device == "cpu";
  const testing_support::TempDirectory folder;
  LoadOptions load;
  load.model = (folder.path() / "m.gguf").string();
  load.precision = precision;
  load.kv_type = kv_type;
  load.threads = 2;
  load.device = device;
  testing_support::WriteTinyGguf(shape, load.model);
  const std::shared_ptr<Model> one = Model::Load(load);
  for (int seed = 1; seed <= testing_support::TestRounds(); ++seed) {
    const Workload work(static_cast<std::uint32_t>(seed), on_cpu ? kForests : kFewAnswers);
    EngineOptions roomy;
    roomy.kv_memory = std::int64_t{64} << 20;  // not all that a GPU has
    Engine alone(one, roomy);
    const AnswersByTag expected = RunAll(alone, work.requests());
    for (const int shards : numbers) {
      SCOPED_TRACE(fmt::format("{} {} {}, seed {}, {} shards", shape.family, precision, kv_type,
                               seed, shards));
      load.tensor_parallel = shards;
      const std::shared_ptr<Model> model = Model::Load(load);
      EngineOptions options;
      options.batch_rows = shards % 2 == 0 ? 24 : 0;
      options.kv_memory =
          testing_support::PageBytes(*model) * (work.LargestStreamPages(kPageTokens) + 2);
      const Kernels& kernels = *model->parts().kernels;
      const testing_support::Watchdog watch(std::chrono::seconds(on_cpu ? 600 : 25),
                                            [&] { return kernels.State(); });
      Engine engine(model, options);
      ExpectSameAnswers(expected, RunAll(engine, work.requests(), shards == 3 ? 2 : -1));
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(Shards, MoreKeyHeadsThanShards) {
  const TinyShape shape{
      .family = "qwen3", .hidden = 96, .heads = 10, .kv_heads = 5, .head_dim = 16, .ffn = 80};
  ExpectSameInShards(shape, "f32", "");
  ExpectSameInShards(shape, "mixed", "f16");
  ExpectSameInShards(shape, "mixed", "q8");
}

TEST(Shards, FewerKeyHeadsThanShards) {
  ExpectSameInShards({.family = "llama", .hidden = 64, .kv_heads = 1, .head_dim = 16, .ffn = 33},
                     "mixed", "bf16");
}

// On one GPU, each with a stream of its own.
class ShardsOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    try {
      MakeKernels("cuda", {});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
      GTEST_SKIP() << error.what();
    }
  }
};

TEST_F(ShardsOnCuda, Float32) {
  const TinyShape shape{
      .family = "qwen3", .hidden = 96, .heads = 10, .kv_heads = 5, .head_dim = 16, .ffn = 80};
  ExpectSameInShards(shape, "f32", "", "cuda");
}

TEST_F(ShardsOnCuda, NormsOverDividedHeads) {
  const TinyShape shape{
      .family = "olmo2", .hidden = 64, .heads = 8, .kv_heads = 8, .head_dim = 16, .ffn = 64};
  ExpectSameInShards(shape, "mixed", "f16", "cuda");
}

TEST_F(ShardsOnCuda, EightBits) {
  const TinyShape shape{
      .family = "qwen3", .hidden = 96, .heads = 10, .kv_heads = 5, .head_dim = 16, .ffn = 80};
  ExpectSameInShards(shape, "w8a8", "q8", "cuda");
}

// Heads that have kernels of their own, products that are large enough for a choice.
TEST_F(ShardsOnCuda, ChosenProducts) {
  const TinyShape shape{
      .family = "llama", .hidden = 1024, .heads = 8, .kv_heads = 4, .head_dim = 128, .ffn = 1536};
  ExpectSameInShards(shape, "mixed", "bf16", "cuda", {2, 4});  // one chooses for all
}

// The norm of queries and keys is over all heads.
TEST(Shards, NormsOverDividedHeads) {
  ExpectSameInShards(
      {.family = "olmo2", .hidden = 64, .heads = 8, .kv_heads = 8, .head_dim = 16, .ffn = 64},
      "mixed", "f16");
}

}  // namespace
}  // namespace banyan
