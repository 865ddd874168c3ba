// A row's attention has the same bits under every plan of its step, alone and in company, whatever
// lies in the keys that it does not see.
#include "kernels/attention_fixture.h"
#include "plan/build.h"

namespace banyan::optest {
namespace {

// A context with its own rows, two levels of questions below it, and a path of its own.
Tree BranchingTree() {
  return MakeTree({{-1, 300, 0, 2},
                   {0, 140, 300, 5},
                   {1, 20, 440, 3},
                   {1, 33, 440, 1},
                   {0, 17, 300, 17},
                   {-1, 64, 0, 1}});
}

// A context of more than one group.
Tree LongTree() {
  return MakeTree({{-1, kGroupKeys + 200, 0, 0}, {0, 40, 1224, 3}, {0, 9, 1224, 9}});
}

std::vector<AttentionSetup> Setups() {
  return {{4, 2, 16, 16},
          {5, 1, 24, 12, 90},
          {2, 2, 80, 80, 0, QkNorm::kPerHead},
          {6, 2, 32, 32, 70, QkNorm::kNone, 1.0f, 0.0f, 0, true}};
}

std::vector<PlanChoice> Choices() {
  std::vector<PlanChoice> choices;
  for (const int run_cuts : {kCutsPerGroup, 1, 3}) {
    for (const int row_block : {64, 1, 3, 16}) {
      for (const bool stacked : {false, true}) {
        for (const bool only_seen : {false, true}) {
          choices.push_back({run_cuts, row_block, stacked, only_seen});
          if (run_cuts == kCutsPerGroup) {
            choices.push_back({run_cuts, row_block, stacked, only_seen, kGroupsPerChunk});
          }
        }
      }
    }
  }
  return choices;
}

std::string Text(const PlanChoice& choice) {
  return "run of " + std::to_string(choice.run_cuts) + " cuts or " +
         std::to_string(choice.run_groups) + " groups, blocks of " +
         std::to_string(choice.row_block) + " rows" + (choice.stacked ? ", stacked" : "") +
         (choice.only_seen ? ", only what is seen" : "");
}

class AttentionIndependence : public OperationTest {
 protected:
  // Rows of the step that are not in `changed` keep their bits when the contents of the keys in
  // `changed` (ids of the contents) become `value`, under shared and stacked plans.
  void ExpectUntouched(const AttentionSetup& setup, const Tree& tree,
                       const std::vector<int>& changed, const std::vector<int>& rows) {
    const HostMatrix clean = RandomMatrix(tree.key_count, setup.columns(), 51);
    for (const float value : {kNaN, std::numeric_limits<float>::infinity()}) {
      HostMatrix broken = clean;
      for (const int key : changed) {
        std::fill_n(broken.values.begin() + key * broken.columns, broken.columns, value);
      }
      for (const PlanChoice& choice : {PlanChoice{}, PlanChoice{1, 16, true, false}}) {
        const HostMatrix before = RunAttention(*tested_, setup, tree, clean, choice).out;
        const HostMatrix after = RunAttention(*tested_, setup, tree, broken, choice).out;
        for (const int row : rows) {
          ExpectSameBits(after.Row(row), before.Row(row),
                         "row " + std::to_string(row) + ", " + Text(choice));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
};

std::vector<int> Range(int begin, int end) {
  std::vector<int> range(static_cast<size_t>(end - begin));
  std::iota(range.begin(), range.end(), begin);
  return range;
}

TEST_P(AttentionIndependence, EveryPlanOfAStepHasTheSameBits) {
  for (const AttentionSetup& setup : Setups()) {
    for (const Tree& tree : {BranchingTree(), LongTree()}) {
      const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 52);
      AttentionRun run(*tested_, setup, tree.page_count);
      const KeyBatch all = AllKeys(tree);
      run.Store(all.batch, Select(contents, all.keys));
      const KeyBatch rows = StepRows(tree);
      const HostMatrix row_contents = Select(contents, rows.keys);
      const HostMatrix expected = run.Step(rows.batch, BuildTestPlan(tree, {}), row_contents).out;
      for (const PlanChoice& choice : Choices()) {
        const HostMatrix found =
            run.Step(rows.batch, BuildTestPlan(tree, choice), row_contents).out;
        ExpectSameBits(found.values, expected.values, setup.Text() + ", " + Text(choice));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// A quarter of the heads for the reference, which has one hand and would take minutes.
AttentionSetup ManyHeads(AttentionSetup setup, const Backend& backend) {
  if (backend.device == "reference") {
    setup.heads /= 4;
    setup.kv_heads /= 4;
  }
  return setup;
}

// So many heads and items that a backend with many hands gives each of them several; with pages
// that held numbers before, and with pages that held none.
TEST_P(AttentionIndependence, ManyTasksHaveTheBitsOfFew) {
  std::vector<TreeNode> nodes = {{-1, 300, 0, 0}};
  for (int child = 0; child < 30; ++child) nodes.push_back({0, 6 + child % 3, 300, 4});
  const Tree tree = MakeTree(nodes);
  for (const AttentionSetup& many : {AttentionSetup{32, 16, 64, 64}, {16, 8, 128, 128}}) {
    const AttentionSetup setup = ManyHeads(many, GetParam());
    const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 57);
    const KeyBatch all = AllKeys(tree), rows = StepRows(tree);
    const HostMatrix row_contents = Select(contents, rows.keys);
    HostMatrix expected;
    for (const float stale : {kNaN, 0.5f}) {
      AttentionRun run(*tested_, setup, tree.page_count, stale);
      run.Store(all.batch, Select(contents, all.keys));
      for (const PlanChoice& choice :
           {PlanChoice{}, PlanChoice{1, 16, false, false}, PlanChoice{1, 1, false, true}}) {
        const HostMatrix found =
            run.Step(rows.batch, BuildTestPlan(tree, choice), row_contents).out;
        if (expected.values.empty()) expected = found;
        ExpectSameBits(found.values, expected.values, setup.Text() + ", " + Text(choice));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Short ends of one or a few rows, of every length up to more than a cut and in no order. Pages
// held numbers before, so that no value was ever marked: then kernels may take another way.
TEST_P(AttentionIndependence, ManyEndsOfEveryLengthHaveTheBitsOfOnePlan) {
  std::vector<TreeNode> nodes = {{-1, 200, 0, 0}};
  for (int child = 0; child < 40; ++child) {
    const int length = 1 + child * 37 % 140;
    nodes.push_back({0, length, 200, std::min(length, 1 + child % 3)});
  }
  const Tree tree = MakeTree(nodes);
  for (const AttentionSetup& many : {AttentionSetup{16, 16, 128, 128}, {16, 8, 64, 64, 40}}) {
    const AttentionSetup setup = ManyHeads(many, GetParam());
    const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 58);
    AttentionRun run(*tested_, setup, tree.page_count, 0.5f);
    const KeyBatch all = AllKeys(tree), rows = StepRows(tree);
    run.Store(all.batch, Select(contents, all.keys));
    const HostMatrix row_contents = Select(contents, rows.keys);
    const HostMatrix expected =
        run.Step(rows.batch, BuildTestPlan(tree, {1, 64, true, false}), row_contents).out;
    for (const PlanChoice& choice : {PlanChoice{}, PlanChoice{1, 1, false, true}}) {
      const HostMatrix found = run.Step(rows.batch, BuildTestPlan(tree, choice), row_contents).out;
      ExpectSameBits(found.values, expected.values, setup.Text() + ", " + Text(choice));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(AttentionIndependence, PlansOfTheBuilderHaveTheSameBits) {
  const AttentionSetup setup{4, 2, 16, 16};
  for (const Tree& tree : {BranchingTree(), LongTree()}) {
    const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 53);
    const HostMatrix expected = RunAttention(*tested_, setup, tree, contents, {}).out;
    AttentionRun run(*tested_, setup, tree.page_count);
    const KeyBatch all = AllKeys(tree);
    run.Store(all.batch, Select(contents, all.keys));
    const KeyBatch rows = StepRows(tree);
    const std::vector<PlanNode> nodes = PlanNodesOf(tree);
    AttentionCosts mixed;  // of a machine on which short nodes of few readers are read apart
    mixed[CostTerm::kFewKey] = 2e-9;
    mixed[CostTerm::kManyUnit] = 1e-6;
    mixed[CostTerm::kManyPair] = 1e-9;
    for (const ItemSharing sharing :
         {ItemSharing::kPerStream, ItemSharing::kTree, ItemSharing::kStacked, ItemSharing::kAuto}) {
      for (const int max_item_rows : {64, 5}) {
        for (const int min_items : {1, 50, 0}) {
          PlanOptions options;
          options.sharing = sharing;
          options.max_item_rows = max_item_rows;
          options.min_items = min_items;
          options.joining.least_rows = min_items == 0 ? 1 : 0;
          options.costs = mixed;
          const AttentionPlan plan = BuildPlan(nodes, rows.batch.positions, options);
          const HostMatrix found = run.Step(rows.batch, plan, Select(contents, rows.keys)).out;
          ExpectSameBits(found.values, expected.values,
                         "sharing " + std::to_string(static_cast<int>(sharing)));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(AttentionIndependence, ASegmentInSeveralSpansHasTheBitsOfOne) {
  const AttentionSetup setup{2, 1, 32, 32};
  const int length = kGroupKeys + 476;
  const Tree whole = MakeTree({{-1, length, 0, 0}, {0, 30, length, 4}});
  const HostMatrix contents = RandomMatrix(whole.key_count, setup.columns(), 54);
  const HostMatrix expected = RunAttention(*tested_, setup, whole, contents, {}).out;
  for (const int cuts : {1, 2, 7, 8, 9, 10}) {
    const int first = cuts * kCutKeys;
    const Tree divided = MakeTree({{-1, first, 0, 0},
                                   {0, length - first, first, 0, cuts % kCutsPerChunk},
                                   {1, 30, length, 4}});
    for (const int run_cuts : {kCutsPerGroup, 1, 3}) {
      const PlanChoice choice{run_cuts, 64, false, false};
      const HostMatrix found = RunAttention(*tested_, setup, divided, contents, choice).out;
      ExpectSameBits(found.values, expected.values, "divided after " + std::to_string(cuts));
      if (HasFatalFailure()) return;
    }
  }
}

// Rows with one partial need no merge; with sinks, smaller heads and windows.
TEST_P(AttentionIndependence, RowsOfOnePartialHaveTheBitsOfTheirCuts) {
  const Tree tree = MakeTree({{-1, 150, 0, 60}, {-1, 40, 0, 40}});
  for (AttentionSetup setup : {AttentionSetup{4, 1, 128, 128},
                               {4, 2, 64, 64},
                               {3, 1, 80, 80},
                               {2, 1, 24, 24},
                               {8, 2, 128, 128, 40}}) {
    const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 61);
    for (const bool sinks : {false, true}) {
      setup.sinks = sinks;
      const HostMatrix whole = RunAttention(*tested_, setup, tree, contents, {}).out;
      for (const PlanChoice& choice :
           {PlanChoice{1, 64}, PlanChoice{1, 64, false, true}, PlanChoice{2, 16}}) {
        const HostMatrix cuts = RunAttention(*tested_, setup, tree, contents, choice).out;
        ExpectSameBits(cuts.values, whole.values, setup.Text() + ", " + Text(choice));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(AttentionIndependence, ARowAloneEqualsTheRowInABatch) {
  for (const AttentionSetup& setup : Setups()) {
    const Tree tree = BranchingTree();
    const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 55);
    const AttentionResult all = RunAttention(*tested_, setup, tree, contents, {});
    for (int r = 0; r < all.out.rows; ++r) {
      const Tree path = PathOfRow(tree, r);
      const AttentionResult alone = RunAttention(*tested_, setup, path, contents, {});
      ExpectSameBits(alone.qkv.values, all.qkv.Row(r), "rotated row " + std::to_string(r));
      ExpectSameBits(alone.out.values, all.out.Row(r), "row " + std::to_string(r));
      if (HasFatalFailure()) return;
    }
  }
}

// Documents fed whole below an instruction of several groups that one item covers, questions below
// one of them: rows of every kind of unit in one step.
TEST_P(AttentionIndependence, RowsBelowASharedChunkEqualRowsAlone) {
  const Tree tree = MakeTree({{-1, kGroupKeys + 77, 0, 0},
                              {0, 150, 1101, 150},
                              {1, 12, 1251, 12},
                              {1, 9, 1251, 1},
                              {0, 70, 1101, 40},
                              {0, 300, 1101, 1}});
  const PlanChoice joined{.row_block = 1 << 20, .run_groups = kGroupsPerChunk};
  for (const AttentionSetup& setup :
       {AttentionSetup{4, 2, 16, 16}, {8, 2, 128, 128}, {3, 1, 40, 40, 100}}) {
    SCOPED_TRACE(setup.Text());
    const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 57);
    const AttentionResult all = RunAttention(*tested_, setup, tree, contents, joined);
    const AttentionResult apart =
        RunAttention(*tested_, setup, tree, contents, {.run_cuts = 1, .row_block = 3});
    ExpectSameBits(all.out.values, apart.out.values, "cut by cut");
    for (const int r : {0, 31, 149, 150, 162, 203}) {
      const Tree path = PathOfRow(tree, r);
      const AttentionResult alone = RunAttention(*tested_, setup, path, contents, joined);
      ExpectSameBits(alone.out.values, all.out.Row(r), "row " + std::to_string(r));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(AttentionIndependence, APromptInChunksHasTheBitsOfOneStep) {
  const AttentionSetup setup{4, 2, 32, 32};
  const HostMatrix contents = RandomMatrix(200, setup.columns(), 56);
  const HostMatrix whole =
      RunAttention(*tested_, setup, MakeTree({{-1, 200, 0, 200}}), contents, {}).out;
  for (const int chunk : {1, 7, 64, 150}) {
    AttentionRun run(*tested_, setup, MakeTree({{-1, 200}}).page_count);
    for (int begin = 0; begin < 200; begin += chunk) {
      const int end = std::min(200, begin + chunk);
      Tree tree = MakeTree({{-1, 200}});  // the pages of the whole prompt
      tree.nodes[0].length = end;
      tree.nodes[0].own_rows = end - begin;
      const KeyBatch rows = StepRows(tree);
      const HostMatrix out =
          run.Step(rows.batch, BuildTestPlan(tree, {}), Select(contents, rows.keys)).out;
      ExpectSameBits(out.values, whole.Rows(begin, end).values,
                     "chunks of " + std::to_string(chunk));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(AttentionIndependence, ThreadsDoNotChangeBits) {
  const auto one = Make(GetParam().device, 1);
  for (const AttentionSetup& setup : Setups()) {
    for (const Tree& tree : {BranchingTree(), LongTree()}) {
      const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 57);
      const HostMatrix expected = RunAttention(*one, setup, tree, contents, {}).out;
      for (const int threads : {2, 3, 16}) {
        const auto several = Make(GetParam().device, threads);
        const HostMatrix found = RunAttention(*several, setup, tree, contents, {1, 3}).out;
        ExpectSameBits(found.values, expected.values, std::to_string(threads) + " threads");
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Nodes of BranchingTree hold keys [0, 300), [300, 440), [440, 460), [460, 493), [493, 510) and
// [510, 574); its rows are 0-1, 2-6, 7-9, 10, 11-27 and 28.
TEST_P(AttentionIndependence, BrokenKeysOfOtherStreamsDoNotLeak) {
  for (const AttentionSetup& setup : Setups()) {
    std::vector<int> broken = Range(460, 574);
    ExpectUntouched(setup, BranchingTree(), broken, Range(0, 10));
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionIndependence, BrokenKeysOfLaterRowsDoNotLeak) {
  for (const AttentionSetup& setup : Setups()) {
    ExpectUntouched(setup, BranchingTree(), {299, 437, 438, 439, 457, 500}, {0});
    ExpectUntouched(setup, BranchingTree(), {438, 439, 459, 505},
                    {0, 1, 2, 3, 4, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22});
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionIndependence, BrokenKeysBehindTheWindowDoNotLeak) {
  const AttentionSetup setup{2, 1, 32, 32, 90};
  // The first row stands at position 298 and sees keys from 209.
  ExpectUntouched(setup, BranchingTree(), Range(0, 209), Range(0, 28));
}

TEST_P(AttentionIndependence, ABrokenKeyThatIsSeenShows) {
  const AttentionSetup setup{2, 1, 32, 32};
  const Tree tree = BranchingTree();
  HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 58);
  std::fill_n(contents.values.begin() + 310 * contents.columns, contents.columns, kNaN);
  const HostMatrix out = RunAttention(*tested_, setup, tree, contents, {}).out;
  EXPECT_FALSE(std::isnan(out.Row(0)[0]));
  if (GetParam().kv_type == KvType::kQ8) return;  // 8-bit codes have no NaN of their own
  EXPECT_TRUE(std::isnan(out.Row(2)[0]));
}

INSTANTIATE_TEST_SUITE_P(Backends, AttentionIndependence, testing::ValuesIn(BackendsOfManyPlans()),
                         BackendName);

}  // namespace
}  // namespace banyan::optest
