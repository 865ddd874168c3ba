// One model in several shards: the answers of random forests have the bits of one, whatever the
// number of shards, the model's key heads, precision and type of KV, with hardly any memory and in
// batches that divide prompts anywhere. BANYAN_TEST_ROUNDS=N runs N times as many forests.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/temp_directory.h"
#include "support/tiny_model.h"
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

// Answers by one shard are expected of 2, 3, 4 and 8.
void ExpectSameInShards(const TinyShape& shape, const std::string& precision,
                        const std::string& kv_type) {
  const testing_support::TempDirectory folder;
  LoadOptions load;
  load.model = (folder.path() / "m.gguf").string();
  load.precision = precision;
  load.kv_type = kv_type;
  load.threads = 2;
  testing_support::WriteTinyGguf(shape, load.model);
  const std::shared_ptr<Model> one = Model::Load(load);
  for (int seed = 1; seed <= testing_support::TestRounds(); ++seed) {
    const Workload work(static_cast<std::uint32_t>(seed), kForests);
    Engine alone(one, {});
    const AnswersByTag expected = RunAll(alone, work.requests());
    for (const int shards : {2, 3, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} {} {}, seed {}, {} shards", shape.family, precision, kv_type,
                               seed, shards));
      load.tensor_parallel = shards;
      const std::shared_ptr<Model> model = Model::Load(load);
      EngineOptions options;
      options.batch_rows = shards % 2 == 0 ? 24 : 0;
      options.kv_memory =
          testing_support::PageBytes(*model) * (work.LargestStreamPages(kPageTokens) + 2);
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

// The norm of queries and keys is over all heads.
TEST(Shards, NormsOverDividedHeads) {
  ExpectSameInShards(
      {.family = "olmo2", .hidden = 64, .heads = 8, .kv_heads = 8, .head_dim = 16, .ffn = 64},
      "mixed", "f16");
}

}  // namespace
}  // namespace banyan
