// Items that run through several groups of a chunk against items of one group: the same bits, on
// contents that show every rounding. Backends that merge; the reference knows no order of merging.
#include "kernels/attention_fixture.h"

namespace banyan::optest {

namespace {

// More than a chunk, then a segment of several groups, then streams; their values are zero.
Tree DeepTree() {
  const int shared = kChunkKeys + kGroupKeys + 808, context = 2 * kGroupKeys + 60;
  return MakeTree({{-1, shared, 0, 0},
                   {0, context, shared, 0},
                   {1, 40, shared + context, 21},
                   {1, 9, shared + context, 9},
                   {1, 150, shared + context, 1}});
}

// Prompts whose rows stand on both sides of a group's end and of a chunk's.
Tree PromptTree() {
  return MakeTree({{-1, 3 * kGroupKeys + 30, 0, 60},
                   {0, kChunkKeys + 20, 3 * kGroupKeys + 30, 45},
                   {0, 5, 3 * kGroupKeys + 30, 5}});
}

// A segment in spans that end within a group, at a group's end and within another.
Tree DividedTree() {
  const int first = 2 * kGroupKeys + 3 * kCutKeys, second = 5 * kCutKeys + kGroupKeys;
  const int third = kGroupKeys + kCutKeys;
  return MakeTree({{-1, first, 0, 0},
                   {0, second, first, 0, first / kCutKeys},
                   {1, third, first + second, 0, (first + second) / kCutKeys % kCutsPerChunk},
                   {2, 25, first + second + third, 25}});
}

// Every value of a node comes again with the other sign half a node later, with the same key: where
// a row sees both halves its sums cancel but for their roundings, and these are the result. Nodes
// of few keys have values of zero. Keys do not turn (rotary_dim 0).
HostMatrix TwinContents(const Tree& tree, const AttentionSetup& setup) {
  HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 61);
  const std::int64_t kv_columns = std::int64_t{setup.kv_heads} * setup.head_dim;
  for (const TreeNode& node : tree.nodes) {
    const int half = node.length >= kGroupKeys ? node.length / 2 : 0;
    for (int key = 0; key < node.length; ++key) {
      float* row = contents.values.data() + (node.first_key + key) * contents.columns;
      float* key_and_value = row + contents.columns - 2 * kv_columns;
      if (half == 0 || key >= 2 * half) {
        std::fill_n(key_and_value + kv_columns, kv_columns, 0.0f);
      } else if (key >= half) {
        const float* twin = key_and_value - half * contents.columns;
        for (std::int64_t i = 0; i < 2 * kv_columns; ++i) {
          key_and_value[i] = i < kv_columns ? twin[i] : -twin[i];
        }
      }
    }
  }
  return contents;
}

class AttentionChunks : public OperationTest {
 protected:
  // All outputs under every choice; a NaN may be any.
  void ExpectSameBitsUnder(const std::vector<PlanChoice>& choices, const AttentionSetup& setup,
                           const Tree& tree, const HostMatrix& contents) {
    AttentionRun run(*tested_, setup, tree.page_count, 0.25f);
    const KeyBatch all = AllKeys(tree), rows = StepRows(tree);
    run.Store(all.batch, Select(contents, all.keys));
    const HostMatrix row_contents = Select(contents, rows.keys);
    const HostMatrix expected = run.Step(rows.batch, BuildTestPlan(tree, {}), row_contents).out;
    for (const PlanChoice& choice : choices) {
      HostMatrix found = run.Step(rows.batch, BuildTestPlan(tree, choice), row_contents).out;
      for (size_t i = 0; i < found.values.size(); ++i) {
        if (std::isnan(found.values[i]) && std::isnan(expected.values[i])) {
          found.values[i] = expected.values[i];
        }
      }
      ExpectSameBits(found.values, expected.values,
                     setup.Text() + ", " + std::to_string(choice.run_groups) +
                         " groups, blocks of " + std::to_string(choice.row_block));
      if (HasFatalFailure()) return;
    }
  }
};

std::vector<PlanChoice> JoiningChoices() {
  return {{kCutsPerGroup, 64, false, false, kGroupsPerChunk},
          {kCutsPerGroup, 7, false, true, kGroupsPerChunk},
          {kCutsPerGroup, 30, true, false, 3},
          {kCutsPerGroup, 16, false, false, 2},
          {3, 64, false, false, 1},
          {1, 2, false, true, 1}};
}

TEST_P(AttentionChunks, ManyGroupsAndSegments) {
  for (const AttentionSetup& setup : {AttentionSetup{4, 1, 128, 0},
                                      {1, 1, 32, 0},
                                      {16, 1, 64, 0},
                                      {5, 1, 80, 0},
                                      {7, 1, 96, 0},
                                      {12, 2, 24, 0}}) {
    const Tree tree = DeepTree();
    ExpectSameBitsUnder(JoiningChoices(), setup, tree, TwinContents(tree, setup));
    if (HasFatalFailure()) return;
  }
}

// Of a group that a row does not see there is nothing to merge.
TEST_P(AttentionChunks, WindowsAndPrompts) {
  for (const int window : {0, 20, 300, 1500, 5000}) {
    const AttentionSetup setup{4, 2, 64, 0, window};
    for (const Tree& tree : {DeepTree(), PromptTree()}) {
      ExpectSameBitsUnder(JoiningChoices(), setup, tree, TwinContents(tree, setup));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(AttentionChunks, SegmentsInSeveralSpans) {
  const AttentionSetup setup{8, 2, 64, 0};
  const Tree tree = DividedTree();
  ExpectSameBitsUnder(JoiningChoices(), setup, tree, TwinContents(tree, setup));
}

// So many tasks that a backend with many hands gives each of them several, long and short.
TEST_P(AttentionChunks, ManyTasks) {
  const AttentionSetup setup{85, 17, 32, 0};
  const int shared = kGroupKeys + 200;
  const Tree tree = MakeTree({{-1, shared, 0, 0}, {0, 4, shared, 4}, {0, 33, shared, 32}});
  ExpectSameBitsUnder({{kCutsPerGroup, 4, false, false, kGroupsPerChunk},
                       {kCutsPerGroup, 5, false, false, kGroupsPerChunk},
                       {kCutsPerGroup, 15, true, false, kGroupsPerChunk}},
                      setup, tree, TwinContents(tree, setup));
}

// Rows that see a broken value show it, the others keep their bits.
TEST_P(AttentionChunks, BrokenValues) {
  const AttentionSetup setup{4, 1, 128, 0};
  const Tree tree = PromptTree();
  const HostMatrix clean = TwinContents(tree, setup);
  for (const int broken : {100, kGroupKeys + 3, 3 * kGroupKeys + 7}) {
    HostMatrix contents = clean;
    std::fill_n(contents.values.begin() + broken * contents.columns, contents.columns, kNaN);
    ExpectSameBitsUnder(JoiningChoices(), setup, tree, contents);
    if (HasFatalFailure()) return;
  }
}

// Roundings must show in these contents, or the tests above show nothing. Outputs in bf16, as a
// device leaves them for products, hide most of them.
TEST_P(AttentionChunks, AnotherOrderShows) {
  const AttentionSetup setup{4, 1, 128, 0};
  const Tree tree = DeepTree();
  const HostMatrix contents = TwinContents(tree, setup);
  AttentionRun run(*tested_, setup, tree.page_count);
  const KeyBatch all = AllKeys(tree), rows = StepRows(tree);
  run.Store(all.batch, Select(contents, all.keys));
  const HostMatrix row_contents = Select(contents, rows.keys);
  AttentionPlan plan = BuildTestPlan(tree, {});
  const HostMatrix right = run.Step(rows.batch, plan, row_contents).out;
  for (MergeEntry& entry : plan.merges) entry.opens = Opening::kChunk;
  const HostMatrix other = run.Step(rows.batch, plan, row_contents).out;
  size_t different = 0;
  for (size_t i = 0; i < right.values.size(); ++i) different += right.values[i] != other.values[i];
  const bool bf16 = GetParam().device == "cuda" && GetParam().precision == Precision::kMixed;
  EXPECT_GT(different, right.values.size() / (bf16 ? 200 : 2));
}

std::vector<Backend> MergingBackends() {
  std::vector<Backend> backends = AllBackends();
  std::erase_if(backends, [](const Backend& backend) { return backend.device == "reference"; });
  return backends;
}

INSTANTIATE_TEST_SUITE_P(Backends, AttentionChunks, testing::ValuesIn(MergingBackends()),
                         BackendName);

}  // namespace

}  // namespace banyan::optest
