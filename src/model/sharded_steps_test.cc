// Steps of shards that meet, on queues whose operations run in random orders: run, recorded as one
// graph and replayed, they give the logits of one device. Without waits they do not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <tuple>

#include "base/error.h"
#include "kernels/shards/sharded_kernels.h"
#include "model/loaded_model_fixture.h"
#include "support/queued_kernels.h"
#include "support/temp_directory.h"
#include "support/tiny_model.h"
#include "support/watchdog.h"

namespace banyan {
namespace {

using testing_support::LoadedModel;
using testing_support::QueuedKernels;
using testing_support::TempDirectory;
using testing_support::Timeline;
using testing_support::TinyShape;

constexpr int kStepRows = 9, kSteps = 6;

std::unique_ptr<Kernels> QueuedShards(const std::shared_ptr<Timeline>& timeline, int shards,
                                      Precision precision) {
  std::vector<std::unique_ptr<Kernels>> made;
  for (int s = 0; s < shards; ++s) {
    made.push_back(std::make_unique<QueuedKernels>(
        timeline, MakeKernels("cpu", {precision, KvType::kF32, 1})));
  }
  return std::make_unique<ShardedKernels>(std::move(made));
}

// Of some rows of each of several steps that are alike.
std::vector<float> Logits(LoadedModel& model) {
  const auto tokens = testing_support::SomeTokens(kSteps * kStepRows, 200);
  return model.LogitsOf(tokens, {0, 4, kStepRows - 1}, kStepRows,
                        LoadedModel::Wanted::kInEveryStep);
}

std::vector<float> Logits(LoadedModel&& model) { return Logits(model); }

void ExpectThoseOfOne(const TinyShape& shape) {
  const TempDirectory directory;
  const auto path = testing_support::WriteTinyGguf(shape, directory.path() / "m.gguf");
  for (const Precision precision : {Precision::kF32, Precision::kMixed}) {
    const std::vector<float> expected = Logits(LoadedModel(path, "cpu", 1, precision));
    for (const int shards : {2, 3, 4, 8}) {
      for (unsigned order = 0; order < 2; ++order) {
        const auto timeline = std::make_shared<Timeline>(order);
        const std::vector<float> found =
            Logits(LoadedModel(path, QueuedShards(timeline, shards, precision)));
        ASSERT_TRUE(expected == found) << shape.family << ", " << shards << " shards";
        EXPECT_EQ(timeline->counts.recorded, 1);
        // What the first makes room for, the second shows to a new recorder.
        EXPECT_EQ(timeline->counts.replayed, kSteps - 2);
      }
    }
  }
}

TEST(ShardedSteps, HeadsThatDoNotDivideEvenly) {
  ExpectThoseOfOne(
      {.family = "qwen3", .hidden = 96, .heads = 10, .kv_heads = 5, .head_dim = 16, .ffn = 80});
}

TEST(ShardedSteps, FewerKeyHeadsThanShards) {
  ExpectThoseOfOne({.hidden = 64, .kv_heads = 1, .head_dim = 16, .ffn = 33, .tied = true});
}

TEST(ShardedSteps, NormsOverAllHeads) {
  ExpectThoseOfOne(
      {.family = "olmo2", .hidden = 64, .heads = 8, .kv_heads = 8, .head_dim = 16, .ffn = 64});
}

TEST(ShardedSteps, Experts) {
  ExpectThoseOfOne({.family = "qwen3_moe", .hidden = 64, .head_dim = 16, .ffn = 96});
}

// --- On one GPU, each shard with a stream of its own ---------------------------------------------

struct OnGpu {
  TinyShape shape;
  KernelOptions options;
};
// The first fails first: few kernels, then those of 16 bits and of Hopper, then choices of
// products.
std::vector<OnGpu> ModelsOnGpu() {
  const TinyShape uneven{
      .family = "qwen3", .hidden = 96, .heads = 10, .kv_heads = 5, .head_dim = 16, .ffn = 80};
  const TinyShape norms{
      .family = "olmo2", .hidden = 64, .heads = 8, .kv_heads = 8, .head_dim = 16, .ffn = 64};
  const TinyShape wide{
      .family = "llama", .hidden = 1024, .heads = 8, .kv_heads = 4, .head_dim = 128, .ffn = 1536};
  const TinyShape experts{.family = "qwen3_moe", .hidden = 64, .head_dim = 16, .ffn = 96};
  KernelOptions in_8_bits{Precision::kMixed, KvType::kQ8};
  in_8_bits.eight_bit_products = true;
  return {{uneven, {Precision::kF32, KvType::kF32}},
          {uneven, {Precision::kMixed, KvType::kF16}},
          {norms, {Precision::kMixed, KvType::kBF16}},
          {uneven, in_8_bits},
          {wide, {Precision::kMixed, KvType::kF16}},
          {wide, in_8_bits},
          {experts, {Precision::kF32, KvType::kF32}},
          {experts, {Precision::kMixed, KvType::kBF16}},
          {experts, in_8_bits}};
}

class ShardedStepsOnCuda : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(ShardedStepsOnCuda, AreThoseOfOne) {
  const auto [shards, which] = GetParam();
  auto [shape, options] = ModelsOnGpu()[static_cast<size_t>(which)];
  std::unique_ptr<Kernels> one, several;
  try {
    one = MakeKernels("cuda", options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    GTEST_SKIP() << error.what();
  }
  options.shards = shards;
  several = MakeKernels("cuda", options);
  const TempDirectory directory;
  const auto path = testing_support::WriteTinyGguf(shape, directory.path() / "m.gguf");
  const Kernels& watched = *several;
  const testing_support::Watchdog watch(std::chrono::seconds(120), [&] { return watched.State(); });
  const std::vector<float> expected = Logits(LoadedModel(path, std::move(one)));
  LoadedModel divided(path, std::move(several));
  EXPECT_TRUE(expected == Logits(divided));
}

INSTANTIATE_TEST_SUITE_P(Shards, ShardedStepsOnCuda,
                         testing::Combine(testing::Values(2, 3, 4, 8),
                                          testing::Range(0,
                                                         static_cast<int>(ModelsOnGpu().size()))));

TEST(ShardedSteps, DifferWhereShardsDoNotWait) {
  const TempDirectory directory;
  const auto path =
      testing_support::WriteTinyGguf({.hidden = 64, .head_dim = 16}, directory.path() / "m.gguf");
  const std::vector<float> expected = Logits(LoadedModel(path, "cpu"));
  const auto timeline = std::make_shared<Timeline>(1);
  timeline->forgets_follows = true;
  EXPECT_FALSE(expected == Logits(LoadedModel(path, QueuedShards(timeline, 3, Precision::kF32))));
}

}  // namespace
}  // namespace banyan
