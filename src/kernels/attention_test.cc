// RotateAndStore and Attend against the reference on every kind of head and window.
#include <algorithm>

#include "kernels/attention_fixture.h"
#include "kernels/hadamard.h"

namespace banyan::optest {
namespace {

class AttentionTest : public OperationTest {
 protected:
  void Compare(const AttentionSetup& setup, const Tree& tree) {
    SCOPED_TRACE(setup.Text());
    const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 21);
    const AttentionResult found = RunAttention(*tested_, setup, tree, contents, {});
    const AttentionResult wanted = RunAttention(*reference_, setup, tree, contents, {});
    CompareRotated(setup, found, wanted.qkv);
    if (HasFatalFailure()) return;
    // Scores are off by the rounding of every stored key and of the query, which add up like a
    // random walk; the weights of the softmax then by a factor of at most exp(2 * score error).
    const double kv_eps = 3 * KvEps(GetParam().kv_type) + ActivationEps();
    const double norm = setup.norm == QkNorm::kNone ? 1.0 : 9.0;  // weights up to 3 on both sides
    const double head_norm = std::sqrt(setup.head_dim) * setup.rope_scale;
    const double sharper = 1.0 + 12.0 * setup.query_beta;  // ln(1 + p / interval) is below 12
    const double size = sharper * norm * head_norm * head_norm / std::sqrt(setup.head_dim);
    const double score_error = size * (8 * kv_eps / std::sqrt(setup.head_dim) + 16 * kEps32);
    const double largest = MaxAbs(contents.values);
    const double tolerance = largest * (2 * score_error + 4 * kv_eps + 256 * kEps32);
    ExpectNear(found.out, wanted.out, [&](std::int64_t, std::int64_t) { return tolerance; });
  }

  // What stands behind the queries becomes zero.
  static void KeepQueries(const AttentionSetup& setup, HostMatrix& qkv) {
    const std::int64_t queries = std::int64_t{setup.heads} * setup.head_dim;
    for (std::int64_t row = 0; row < qkv.rows; ++row) {
      std::fill_n(qkv.values.begin() + row * qkv.columns + queries, qkv.columns - queries, 0.0f);
    }
  }

  // In place. int8 KV wants queries transformed (hadamard.h). Only the cuda backend, with 16 bits,
  // may keep turned queries elsewhere, and then touches nothing: what it turned shows in the
  // results.
  void CompareRotated(const AttentionSetup& setup, AttentionResult found, HostMatrix wanted) {
    const bool may_keep = GetParam().device == "cuda" && mixed();
    if (may_keep && found.qkv.values == found.given.values) return;
    if (GetParam().kv_type == KvType::kQ8 && GetParam().device != "reference") {
      KeepQueries(setup, found.qkv);
      KeepQueries(setup, wanted);
      const auto dim = static_cast<size_t>(setup.head_dim);
      std::vector<float>& heads = found.qkv.values;
      for (size_t at = 0; at < heads.size(); at += dim)
        HadamardHead(std::span(heads).subspan(at, dim));
    }
    const double largest = MaxAbs(wanted.values);
    const double norm_chain = setup.norm == QkNorm::kNone ? 0.0 : setup.columns() * kEps32;
    ExpectNear(found.qkv, wanted, [&](std::int64_t, std::int64_t) {
      return largest * (8 * kEps32 + norm_chain + (mixed() ? ActivationEps() : 0.0));
    });
  }
};

// A shared context, two questions below it, and a path of its own.
Tree SmallTree() {
  return MakeTree({{-1, 150, 0, 3}, {0, 21, 150, 5}, {0, 16, 150, 1}, {-1, 40, 0, 40}});
}

TEST_P(AttentionTest, EveryHeadSize) {
  for (const int head_dim : {8, 16, 32, 64, 80, 96, 128, 256, 300, 512}) {
    Compare({2, 1, head_dim, head_dim}, SmallTree());
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionTest, EveryHeadRatio) {
  for (const int ratio : {1, 2, 4, 5, 6, 7, 8, 16}) {
    Compare({2 * ratio, 2, 16, 16}, SmallTree());
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionTest, PartialRotaryAndScaledRope) {
  for (const int rotary_dim : {0, 2, 8, 12, 20, 32}) {
    Compare({3, 3, 32, rotary_dim, 0, QkNorm::kNone, 1.19f}, SmallTree());
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionTest, QueriesGrowWithThePosition) {
  for (const int interval : {1, 7, 64, 100000}) {
    Compare({4, 2, 32, 32, 0, QkNorm::kNone, 1.0f, 0.1f, interval}, SmallTree());
    Compare({4, 2, 64, 20, 0, QkNorm::kPerHead, 1.0f, 0.25f, interval}, SmallTree());
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionTest, NormsOfQueryAndKey) {
  for (const QkNorm norm : {QkNorm::kPerHead, QkNorm::kWhole}) {
    Compare({4, 2, 32, 32, 0, norm}, SmallTree());
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionTest, NormsOfValues) {
  for (const int head_dim : {20, 64, 512}) {
    for (const QkNorm norm : {QkNorm::kNone, QkNorm::kPerHead}) {
      AttentionSetup setup{4, 2, head_dim, head_dim, 0, norm};
      setup.value_norm = true;
      Compare(setup, SmallTree());
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(AttentionTest, Sinks) {
  for (const int window : {0, 1, 17, 129}) {
    AttentionSetup setup{6, 2, 32, 32, window};
    setup.sinks = true;
    Compare(setup, SmallTree());
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionTest, Windows) {
  for (const int window : {1, 2, 15, 16, 17, 100, 128, 129, 1000}) {
    Compare({2, 1, 16, 16, window}, SmallTree());
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionTest, LongSpansOfSeveralGroups) {
  Compare({2, 1, 32, 32}, MakeTree({{-1, 2 * kGroupKeys + 77, 0, 2}, {0, 130, 2125, 4}}));
  if (HasFatalFailure()) return;
  Compare({2, 1, 32, 32, 300}, MakeTree({{-1, 2 * kGroupKeys + 77, 0, 2}, {0, 130, 2125, 4}}));
}

TEST_P(AttentionTest, FarPositionsTurnAsFloat32) {
  Compare({2, 1, 64, 64}, MakeTree({{-1, 33, 100000, 33}}));
}

TEST_P(AttentionTest, ARowThatSeesOneKeyGetsItsValue) {
  const AttentionSetup setup{2, 1, 32, 32, 1};
  const Tree tree = SmallTree();
  const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 22);
  const HostMatrix out = RunAttention(*tested_, setup, tree, contents, {}).out;
  const KeyBatch rows = StepRows(tree);
  for (std::int64_t r = 0; r < out.rows; ++r) {
    const std::span<const float> value = contents.Row(rows.keys[r]).last(32);
    // Rounded values; activations may be rounded when they are fed and when they leave. Codes of 8
    // bits are those of the transformed head: half a step of each at most, all in one value at
    // worst.
    std::vector<float> rotated(value.begin(), value.end());
    HadamardHead(rotated);
    const double kept =
        GetParam().kv_type == KvType::kQ8 ? std::sqrt(32.0) * MaxAbs(rotated) : MaxAbs(value);
    const double tolerance = kept * KvEps(GetParam().kv_type) * 1.001 +
                             MaxAbs(value) * (mixed() ? 2 * ActivationEps() : 0.0);
    for (int h = 0; h < 2; ++h) {
      for (int d = 0; d < 32; ++d) ASSERT_NEAR(out.Row(r)[h * 32 + d], value[d], tolerance);
    }
  }
}

TEST_P(AttentionTest, RowsThatSeeNothingGetZeros) {
  const AttentionSetup setup{3, 1, 40, 40};
  AttentionRun run(*tested_, setup, 4);
  const HostMatrix contents = RandomMatrix(3, setup.columns(), 23);
  Batch batch = PlainBatch(3);
  const HostMatrix no_merges = run.Step(batch, EmptyPlan(3), contents).out;
  ExpectSameBits(no_merges.values, std::vector<float>(no_merges.values.size(), 0.0f),
                 "no merge list");
  // Keys that all stand behind the rows.
  AttentionPlan plan;
  plan.pages = {0};
  plan.spans = {{0, 3, 50, 0}};
  plan.items = {{0, 3, 0, 3, 0, 0, 3, 0}};
  plan.merge_begin = {0, 1, 2, 3};
  plan.merges = {{0, Opening::kChunk}, {1, Opening::kChunk}, {2, Opening::kChunk}};
  plan.partials = 3;
  const HostMatrix unseen = run.Step(batch, plan, contents).out;
  ExpectSameBits(unseen.values, std::vector<float>(unseen.values.size(), 0.0f), "unseen keys");
}

// As many pages as take several launches on a device; those that were read keep what they hold.
TEST_P(AttentionTest, CopiedPagesHoldTheSame) {
  std::vector<TreeNode> nodes = {{-1, 90, 0, 0}};
  for (int child = 0; child < 150; ++child) nodes.push_back({0, 20 + child % 3, 90, 1});
  const Tree tree = MakeTree(nodes);
  Tree elsewhere = tree;
  std::vector<PageCopy> copies;
  for (std::vector<std::int32_t>& pages : elsewhere.pages) {
    for (std::int32_t& page : pages) {
      copies.push_back({page, page + tree.page_count});
      page += tree.page_count;
    }
  }
  for (const AttentionSetup& setup : {AttentionSetup{4, 2, 16, 16}, {2, 2, 80, 80}}) {
    const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 61);
    AttentionRun run(*tested_, setup, 2 * tree.page_count);
    const KeyBatch all = AllKeys(tree), rows = StepRows(tree), other_rows = StepRows(elsewhere);
    run.Store(all.batch, Select(contents, all.keys));
    run.Copy(copies);
    const HostMatrix row_contents = Select(contents, rows.keys);
    const HostMatrix expected = run.Step(rows.batch, BuildTestPlan(tree, {}), row_contents).out;
    const HostMatrix found =
        run.Step(other_rows.batch, BuildTestPlan(elsewhere, {}), row_contents).out;
    ExpectSameBits(found.values, expected.values, setup.Text());
    for (const float value : found.values) ASSERT_TRUE(std::isfinite(value)) << setup.Text();
  }
}

TEST_P(AttentionTest, LayersDoNotTouchEachOther) {
  constexpr int kLayers = 3, kPages = 5;
  const AttentionShape shape{2, 1, 16, 0, 0.25f};
  const RopeTable rope{std::vector<float>(8, 0.5f), 1.0f};
  tested_->SetRopes(std::span(&rope, 1));
  EXPECT_GT(tested_->KvPageBytes({3, 1, 16}), 0);
  EXPECT_EQ(tested_->KvPageBytes({6, 1, 16}), 2 * tested_->KvPageBytes({3, 1, 16}));
  const Tree tree = MakeTree({{-1, 20, 0, 3}});
  const KeyBatch keys = AllKeys(tree), rows = StepRows(tree);
  const auto store = [&](int layer, const KeyBatch& from, const AttentionPlan& plan, KvMemory& kv) {
    auto step = tested_->Upload(from.batch, plan);
    Tensor qkv = Fill(*tested_, Select(RandomMatrix(20, 64, 30 + layer), from.keys));
    tested_->RotateAndStore(*step, layer, shape, {}, qkv, kv);
    return std::pair(std::move(step), qkv);
  };
  const auto attend = [&](int layer, KvMemory& kv) {
    const auto [step, qkv] = store(layer, rows, BuildTestPlan(tree, {}), kv);
    Tensor out = Poisoned(*tested_, 3, 32);
    tested_->Attend(*step, layer, shape, qkv, kv, out);
    return Read(*tested_, out);
  };
  const AttentionPlan nothing = EmptyPlan(keys.batch.rows());
  const auto all = tested_->NewKvMemory({kLayers, 1, 16}, kPages);
  EXPECT_EQ(all->pages, kPages);
  for (int layer = 0; layer < kLayers; ++layer) store(layer, keys, nothing, *all);
  for (int layer = 0; layer < kLayers; ++layer) {
    const auto one = tested_->NewKvMemory({kLayers, 1, 16}, kPages);
    store(layer, keys, nothing, *one);
    ExpectSameBits(attend(layer, *all).values, attend(layer, *one).values, "layer");
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, AttentionTest, testing::ValuesIn(AllBackends()), BackendName);

}  // namespace
}  // namespace banyan::optest
