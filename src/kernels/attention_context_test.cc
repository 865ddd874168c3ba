// Attention over a parallel context: against a softmax with its two rules written out here, and the
// same bits under every plan, in company and on any number of threads.
#include "kernels/attention_fixture.h"
#include "plan/build.h"

namespace banyan::optest {
namespace {

constexpr ParallelContext kSharpened{0, 0.5f, 0.8f};  // without its spans

// Documents side by side after a system prompt of `system` tokens (0: none), two questions of which
// one is fed whole, and a stream that reads none of them.
Tree JoinedTree(const std::vector<int>& documents, int system, const ParallelContext& numbers) {
  std::vector<TreeNode> nodes;
  int longest = 0, last = -1;
  for (const int length : documents) {
    nodes.push_back({last, length, system, 0});
    last = static_cast<int>(nodes.size()) - 1;
    longest = std::max(longest, length);
  }
  if (system > 0) {
    nodes.push_back({last, system, 0, 0});
    last = static_cast<int>(nodes.size()) - 1;
  }
  nodes.push_back({last, 19, system + longest, 19});
  nodes.push_back({last, 140, system + longest, 2});
  nodes.push_back({-1, 60, 0, 5});
  Tree tree = MakeTree(std::move(nodes));
  tree.context = numbers;
  tree.context.spans = static_cast<std::int32_t>(documents.size());
  return tree;
}

std::vector<Tree> JoinedTrees(const ParallelContext& numbers) {
  return {JoinedTree({40}, 0, numbers), JoinedTree({150, 33, 129, 7}, 21, numbers),
          JoinedTree({kGroupKeys + 300, 80}, 200, numbers)};
}

// Scores without the temperature, and what they weigh.
struct SeenScores {
  std::vector<double> scores;
  std::vector<int> keys;  // rows of the contents
};

double LogSumExpOf(const std::vector<double>& scores) {
  double sum = 0.0;
  const double largest = *std::max_element(scores.begin(), scores.end());
  for (const double score : scores) sum += std::exp(score - largest);
  return largest + std::log(sum);
}

// One head of one row by the definition, from contents that nothing turns.
std::vector<double> DenseHead(const AttentionSetup& setup, const Tree& path,
                              const HostMatrix& contents, int head) {
  const int dim = setup.head_dim, kv_head = head / (setup.heads / setup.kv_heads);
  const TreeNode& tail = path.nodes.back();
  const int position = tail.first_position + tail.length - 1;
  const float* query = contents.Row(tail.first_key + tail.length - 1).data() + head * dim;
  SeenScores context, rest;
  for (size_t n = 0; n < path.nodes.size(); ++n) {
    const TreeNode& node = path.nodes[n];
    const bool parallel = static_cast<int>(n) < path.context.spans;
    for (int k = 0; k < node.length; ++k) {
      const int back = position - (node.first_position + k);
      if (back < 0 || (setup.window > 0 && back >= setup.window)) continue;
      const float* key = contents.Row(node.first_key + k).data() + (setup.heads + kv_head) * dim;
      double score = 0.0;
      for (int d = 0; d < dim; ++d) score += double{query[d]} * key[d];
      score /= std::sqrt(static_cast<double>(dim));
      if (parallel) score /= path.context.temperature;
      SeenScores& seen = parallel ? context : rest;
      seen.scores.push_back(score);
      seen.keys.push_back(node.first_key + k);
    }
  }
  // exp(S L) for the whole context against exp(L) for the rest.
  const double rest_sum = LogSumExpOf(rest.scores);
  const double context_sum =
      context.scores.empty() ? 0.0 : LogSumExpOf(context.scores) * path.context.scale;
  const double context_share =
      context.scores.empty() ? 0.0 : 1.0 / (1.0 + std::exp(rest_sum - context_sum));
  std::vector<double> out(static_cast<size_t>(dim));
  const auto add = [&](const SeenScores& seen, double share) {
    if (seen.scores.empty()) return;
    const double sum = LogSumExpOf(seen.scores);
    for (size_t i = 0; i < seen.keys.size(); ++i) {
      const float* value =
          contents.Row(seen.keys[i]).data() + (setup.heads + setup.kv_heads + kv_head) * dim;
      const double weight = share * std::exp(seen.scores[i] - sum);
      for (int d = 0; d < dim; ++d) out[static_cast<size_t>(d)] += weight * value[d];
    }
  };
  add(context, context_share);
  add(rest, 1.0 - context_share);
  return out;
}

class ParallelContextTest : public OperationTest {
 protected:
  // Of one value: scores are off as in attention_test.cc, those of the context by the temperature
  // more, and the context as a whole by the scale.
  double Tolerance(const AttentionSetup& setup, const ParallelContext& context,
                   const HostMatrix& contents) const {
    const double kv_eps = 3 * KvEps(GetParam().kv_type) + ActivationEps();
    const double size = std::sqrt(setup.head_dim);
    const double score_error = size * (8 * kv_eps / std::sqrt(setup.head_dim) + 16 * kEps32);
    const double more = std::max(1.0, (1.0 + context.scale) / context.temperature);
    return MaxAbs(contents.values) * (2 * more * score_error + 4 * kv_eps + 1024 * kEps32);
  }
};

TEST_P(ParallelContextTest, WeighsByTheDefinition) {
  for (const ParallelContext& numbers :
       {kSharpened, ParallelContext{0, 1.0f, 1.3f}, {0, 0.3f, 1.0f}, {0, 1.7f, 0.4f}}) {
    std::vector<Tree> trees = JoinedTrees(numbers);
    if (numbers.temperature != kSharpened.temperature) trees.pop_back();  // the long one: once
    for (const AttentionSetup& setup :
         {AttentionSetup{4, 2, 24, 0}, {2, 2, 64, 0}, {3, 1, 16, 0, 45}}) {
      for (const Tree& tree : trees) {
        SCOPED_TRACE(setup.Text());
        const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 71);
        const HostMatrix found = RunAttention(*tested_, setup, tree, contents, {}).out;
        const double tolerance = Tolerance(setup, tree.context, contents);
        for (int r = 0; r < found.rows; ++r) {
          const Tree path = PathOfRow(tree, r);
          for (int h = 0; h < setup.heads; ++h) {
            const std::vector<double> wanted = DenseHead(setup, path, contents, h);
            for (int d = 0; d < setup.head_dim; ++d) {
              ASSERT_NEAR(found.Row(r)[h * setup.head_dim + d], wanted[static_cast<size_t>(d)],
                          tolerance)
                  << "row " << r << ", head " << h;
            }
          }
        }
      }
    }
  }
}

// Not so by chance: other numbers give other results, but to those who do not read the context.
TEST_P(ParallelContextTest, BothNumbersCount) {
  const AttentionSetup setup{4, 2, 32, 32};
  const Tree plain = JoinedTree({150, 33}, 21, {});
  const HostMatrix contents = RandomMatrix(plain.key_count, setup.columns(), 72);
  const HostMatrix before = RunAttention(*tested_, setup, plain, contents, {}).out;
  for (const ParallelContext& numbers : {ParallelContext{0, 0.5f, 1.0f}, {0, 1.0f, 0.5f}}) {
    const Tree tree = JoinedTree({150, 33}, 21, numbers);
    const HostMatrix after = RunAttention(*tested_, setup, tree, contents, {}).out;
    for (int r = 0; r < 21; ++r) {
      double difference = 0.0;
      for (std::int64_t c = 0; c < after.columns; ++c) {
        difference = std::max(difference, std::fabs(double{after.Row(r)[c]} - before.Row(r)[c]));
      }
      EXPECT_GT(difference, 0.02) << "row " << r;
    }
    ExpectSameBits(after.Rows(21, after.rows).values, before.Rows(21, before.rows).values,
                   "rows of another stream");
  }
}

TEST_P(ParallelContextTest, OneAndOneChangeNothing) {
  const AttentionSetup setup{4, 2, 32, 32, 0, QkNorm::kPerHead};
  for (Tree tree : JoinedTrees({})) {
    const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 73);
    const HostMatrix found = RunAttention(*tested_, setup, tree, contents, {}).out;
    tree.context = {};
    const HostMatrix expected = RunAttention(*tested_, setup, tree, contents, {}).out;
    ExpectSameBits(found.values, expected.values, "temperature 1, scale 1");
  }
}

TEST_P(ParallelContextTest, AgreesWithTheReferenceOnTurnedAndWindowedHeads) {
  for (const AttentionSetup& setup :
       {AttentionSetup{8, 2, 64, 64}, {2, 1, 80, 40}, {5, 1, 24, 12, 90}}) {
    for (const Tree& tree : JoinedTrees(kSharpened)) {
      SCOPED_TRACE(setup.Text());
      const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 74);
      const HostMatrix found = RunAttention(*tested_, setup, tree, contents, {}).out;
      const HostMatrix wanted = RunAttention(*reference_, setup, tree, contents, {}).out;
      const double tolerance = Tolerance(setup, tree.context, contents);
      ExpectNear(found, wanted, [&](std::int64_t, std::int64_t) { return tolerance; });
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ParallelContextTest, EveryPlanHasTheSameBitsAndSoHasARowAlone) {
  const PlanChoice choices[] = {{1, 64, false, false},
                                {3, 3, false, true},
                                {kCutsPerGroup, 16, true, false},
                                {kCutsPerGroup, 1, false, true},
                                {kCutsPerGroup, 64, false, false, kGroupsPerChunk}};
  for (const AttentionSetup& setup : {AttentionSetup{4, 2, 16, 16}, {8, 2, 128, 128, 70}}) {
    for (const Tree& tree : JoinedTrees(kSharpened)) {
      SCOPED_TRACE(setup.Text());
      const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 75);
      const HostMatrix expected = RunAttention(*tested_, setup, tree, contents, {}).out;
      for (const PlanChoice& choice : choices) {
        const HostMatrix found = RunAttention(*tested_, setup, tree, contents, choice).out;
        ExpectSameBits(found.values, expected.values,
                       "run of " + std::to_string(choice.run_cuts) + " cuts");
        if (HasFatalFailure()) return;
      }
      for (const int r : {0, 7, 18, 19, 20, 21, 25}) {
        const HostMatrix alone =
            RunAttention(*tested_, setup, PathOfRow(tree, r), contents, {}).out;
        ExpectSameBits(alone.values, expected.Row(r), "row " + std::to_string(r));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ParallelContextTest, PlansOfTheBuilderHaveTheSameBits) {
  const AttentionSetup setup{4, 2, 16, 16};
  for (const Tree& tree : JoinedTrees(kSharpened)) {
    const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 76);
    const HostMatrix expected = RunAttention(*tested_, setup, tree, contents, {}).out;
    AttentionRun run(*tested_, setup, tree.page_count);
    const KeyBatch all = AllKeys(tree), rows = StepRows(tree);
    run.Store(all.batch, Select(contents, all.keys));
    const std::vector<PlanNode> nodes = PlanNodesOf(tree);
    for (const ItemSharing sharing :
         {ItemSharing::kPerStream, ItemSharing::kTree, ItemSharing::kStacked, ItemSharing::kAuto}) {
      for (const int min_items : {1, 50, 0}) {
        PlanOptions options;
        options.sharing = sharing;
        options.min_items = min_items;
        options.joining.least_rows = min_items == 0 ? 1 : 0;
        options.context = tree.context;
        const AttentionPlan plan = BuildPlan(nodes, rows.batch.positions, options);
        CheckPlan(plan, nodes, rows.batch.positions);
        const HostMatrix found = run.Step(rows.batch, plan, Select(contents, rows.keys)).out;
        ExpectSameBits(found.values, expected.values,
                       "sharing " + std::to_string(static_cast<int>(sharing)));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ParallelContextTest, ThreadsDoNotChangeBits) {
  const AttentionSetup setup{4, 2, 16, 16};
  const auto one = Make(GetParam().device, 1);
  for (const Tree& tree : JoinedTrees(kSharpened)) {
    const HostMatrix contents = RandomMatrix(tree.key_count, setup.columns(), 77);
    const HostMatrix expected = RunAttention(*one, setup, tree, contents, {}).out;
    for (const int threads : {2, 5}) {
      const auto several = Make(GetParam().device, threads);
      const HostMatrix found = RunAttention(*several, setup, tree, contents, {1, 3}).out;
      ExpectSameBits(found.values, expected.values, std::to_string(threads) + " threads");
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ParallelContextTest, testing::ValuesIn(BackendsOfManyPlans()),
                         BackendName);

}  // namespace
}  // namespace banyan::optest
