// For the operation tests: small forests as literals; the different plans of one step, built by
// hand so that kernels are tested apart from plan/; RotateAndStore and Attend over them. Tests
// only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/operation_fixture.h"
#include "plan/build.h"
#include "plan/sharing.h"

namespace banyan::optest {

// Nodes are listed depth-first. The last `own_rows` keys of a node are rows of the step.
struct TreeNode {
  int parent = -1;
  int length = 0;
  int first_position = 0;
  int own_rows = 0;
  int chunk_phase = 0;  // see KvSpan
  int first_key = -1;   // which row of the contents is key 0; -1: follows the node before
};

struct Tree {
  std::vector<TreeNode> nodes;
  std::vector<std::vector<std::int32_t>> pages;  // of each node
  int page_count = 0;                            // all memory, with some unused pages
  int key_count = 0;                             // rows of the contents
  ParallelContext context = {};                  // of the first nodes
};

// Pages are dealt in a shuffled order, so that neighbours in a span are not neighbours in memory.
inline Tree MakeTree(std::vector<TreeNode> nodes) {
  Tree tree;
  tree.nodes = std::move(nodes);
  tree.page_count = 3;
  for (TreeNode& node : tree.nodes) {
    if (node.first_key < 0) node.first_key = tree.key_count;
    tree.key_count = std::max(tree.key_count, node.first_key + node.length);
    tree.page_count += (node.length + kPageTokens - 1) / kPageTokens;
  }
  std::vector<std::int32_t> ids(static_cast<size_t>(tree.page_count));
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), std::mt19937(7));
  size_t next = 0;
  for (const TreeNode& node : tree.nodes) {
    auto& pages = tree.pages.emplace_back();
    for (int k = 0; k < node.length; k += kPageTokens) pages.push_back(ids[next++]);
  }
  return tree;
}

// A batch of keys, and which row of the contents each one feeds.
struct KeyBatch {
  Batch batch;
  std::vector<int> keys;
};

inline void AppendKey(const Tree& tree, size_t node, int key, KeyBatch& rows) {
  rows.keys.push_back(tree.nodes[node].first_key + key);
  rows.batch.tokens.push_back(0);
  rows.batch.positions.push_back(tree.nodes[node].first_position + key);
  rows.batch.slots.push_back(tree.pages[node][key / kPageTokens] * kPageTokens + key % kPageTokens);
}

inline KeyBatch AllKeys(const Tree& tree) {
  KeyBatch all;
  for (size_t n = 0; n < tree.nodes.size(); ++n) {
    for (int k = 0; k < tree.nodes[n].length; ++k) AppendKey(tree, n, k, all);
  }
  return all;
}

// The rows of the step.
inline KeyBatch StepRows(const Tree& tree) {
  KeyBatch rows;
  for (size_t n = 0; n < tree.nodes.size(); ++n) {
    const TreeNode& node = tree.nodes[n];
    for (int k = node.length - node.own_rows; k < node.length; ++k) AppendKey(tree, n, k, rows);
  }
  return rows;
}

// The same nodes for the builder of plan/.
inline std::vector<PlanNode> PlanNodesOf(const Tree& tree) {
  std::vector<PlanNode> nodes;
  std::int32_t row = 0;
  for (size_t n = 0; n < tree.nodes.size(); ++n) {
    PlanNode& node = nodes.emplace_back();
    node.parent = tree.nodes[n].parent;
    node.row_begin = row;
    node.row_end = row += tree.nodes[n].own_rows;
    node.stack = 0;
    node.length = tree.nodes[n].length;
    node.first_position = tree.nodes[n].first_position;
    node.pages = tree.pages[n];
  }
  return nodes;
}

// One partition of the same attention into items.
struct PlanChoice {
  int run_cuts = kCutsPerGroup;  // cuts that the first item of a group covers; the rest are single
  int row_block = 64;            // rows of an item
  bool stacked = false;          // every item takes all rows, readers or not
  bool only_seen = false;        // merge lists leave out what the row cannot see by position
  int run_groups = 1;            // groups that the first item of a chunk covers
};

namespace plan_internal {

// The node's own rows and those of all nodes below it.
inline std::vector<RowRange> Readers(const Tree& tree) {
  std::vector<RowRange> readers;
  std::int32_t row = 0;
  for (const TreeNode& node : tree.nodes) {
    readers.push_back({row, row + node.own_rows});
    row += node.own_rows;
    for (int up = node.parent; up >= 0; up = tree.nodes[up].parent) readers[up].end = row;
  }
  return readers;
}

// Whether the node's segment goes on in another within a chunk.
inline bool IsContinued(const Tree& tree, int node) {
  return std::any_of(tree.nodes.begin(), tree.nodes.end(), [&](const TreeNode& other) {
    return other.parent == node && other.chunk_phase != 0;
  });
}

// Cuts of the node that the item which begins with `cut` covers.
inline int CutsOfItem(const Tree& tree, int node, int cut, const PlanChoice& choice) {
  const int left = (tree.nodes[node].length + kCutKeys - 1) / kCutKeys - cut;
  const int phase = tree.nodes[node].chunk_phase + cut;
  if (phase % kCutsPerGroup != 0) return 1;
  if (choice.run_groups > 1 && phase % kCutsPerChunk == 0 && left > kCutsPerGroup) {
    const int cuts = std::min(left, choice.run_groups * kCutsPerGroup);
    return IsContinued(tree, node) ? cuts / kCutsPerGroup * kCutsPerGroup : cuts;
  }
  return std::min(choice.run_cuts, left);
}

}  // namespace plan_internal

inline AttentionPlan BuildTestPlan(const Tree& tree, const PlanChoice& choice) {
  const std::vector<std::int32_t> positions = StepRows(tree).batch.positions;
  const auto rows = static_cast<std::int32_t>(positions.size());
  const auto readers = plan_internal::Readers(tree);
  AttentionPlan plan;
  plan.context = tree.context;
  std::vector<std::vector<MergeEntry>> merges(positions.size());

  const auto add_items = [&](size_t n, int key_begin, int key_end) {
    const int parent = tree.nodes[n].parent, context = tree.context.spans;
    const bool rest = static_cast<int>(n) >= context && parent >= 0 && parent < context;
    const Opening opens =
        rest && key_begin == 0 ? Opening::kRest : OpeningAt(plan.spans[n], key_begin);
    const auto [first, last] = readers[n];
    const std::int32_t begin = choice.stacked ? 0 : first;
    const std::int32_t end = choice.stacked ? rows : last;
    for (std::int32_t block = begin; block < end; block += choice.row_block) {
      WorkItem item;
      item.row_begin = block;
      item.row_end = std::min(end, block + choice.row_block);
      item.reader_begin = std::clamp(first, item.row_begin, item.row_end);
      item.reader_end = std::clamp(last, item.row_begin, item.row_end);
      item.span = static_cast<std::int32_t>(n);
      item.key_begin = key_begin;
      item.key_end = key_end;
      item.first_partial = plan.partials;
      for (std::int32_t r = item.reader_begin; r < item.reader_end; ++r) {
        const std::int32_t partial = plan.partials++;
        const bool seen = positions[r] >= tree.nodes[n].first_position + key_begin;
        if (seen || !choice.only_seen) merges[r].push_back({partial, opens});
      }
      plan.items.push_back(item);
    }
  };

  for (size_t n = 0; n < tree.nodes.size(); ++n) {
    const TreeNode& node = tree.nodes[n];
    plan.spans.push_back({static_cast<std::int32_t>(plan.pages.size()), node.length,
                          node.first_position, node.chunk_phase});
    plan.pages.insert(plan.pages.end(), tree.pages[n].begin(), tree.pages[n].end());
    const int cuts = (node.length + kCutKeys - 1) / kCutKeys;
    for (int cut = 0; cut < cuts;) {
      const int run = plan_internal::CutsOfItem(tree, static_cast<int>(n), cut, choice);
      add_items(n, cut * kCutKeys, std::min(node.length, (cut + run) * kCutKeys));
      cut += run;
    }
  }
  std::stable_sort(plan.items.begin(), plan.items.end(), [](const WorkItem& a, const WorkItem& b) {
    return (a.row_end - a.row_begin) * (a.key_end - a.key_begin) >
           (b.row_end - b.row_begin) * (b.key_end - b.key_begin);
  });
  plan.merge_begin.push_back(0);
  for (const auto& list : merges) {
    plan.merges.insert(plan.merges.end(), list.begin(), list.end());
    plan.merge_begin.push_back(static_cast<std::int32_t>(plan.merges.size()));
  }
  return plan;
}

// The path of one row by itself: the same keys, nothing else, ending at the row.
inline Tree PathOfRow(const Tree& tree, int row) {
  for (size_t n = 0; n < tree.nodes.size(); ++n) {
    TreeNode tail = tree.nodes[n];
    if (row >= tail.own_rows) {
      row -= tail.own_rows;
      continue;
    }
    tail.length = tail.length - tail.own_rows + row + 1;
    tail.own_rows = 1;
    std::vector<TreeNode> path = {tail};
    int root = static_cast<int>(n);
    for (int up = tail.parent; up >= 0; up = tree.nodes[up].parent) {
      root = up;
      path.insert(path.begin(), tree.nodes[up]);
      path.front().own_rows = 0;
    }
    for (size_t i = 0; i < path.size(); ++i) path[i].parent = static_cast<int>(i) - 1;
    Tree alone = MakeTree(std::move(path));
    if (root < tree.context.spans) alone.context = tree.context;
    return alone;
  }
  return {};
}

enum class QkNorm { kNone, kPerHead, kWhole };

struct AttentionSetup {
  int heads = 1, kv_heads = 1, head_dim = 16;
  int rotary_dim = 16;
  int window = 0;
  QkNorm norm = QkNorm::kNone;
  float rope_scale = 1.0f;
  float query_beta = 0.0f;
  int query_interval = 0;
  bool sinks = false;
  bool value_norm = false;

  AttentionShape Shape() const {
    const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    return {heads, kv_heads, head_dim, window, scale, rotary_dim > 0 ? 1 : kNoRope};
  }
  std::int64_t columns() const { return std::int64_t{heads + 2 * kv_heads} * head_dim; }
  std::string Text() const {
    return testing::PrintToString(std::vector<int>{heads, kv_heads, head_dim, rotary_dim, window}) +
           " heads, kv heads, head_dim, rotary, window";
  }
};

struct AttentionResult {
  HostMatrix given;  // before RotateAndStore
  HostMatrix qkv;    // afterwards
  HostMatrix out;
};

// One memory of two layers, of which the second is used.
class AttentionRun {
 public:
  // Pages hold `stale_value` before anything is stored.
  AttentionRun(Kernels& kernels, const AttentionSetup& setup, int pages, float stale_value = kNaN)
      : kernels_(kernels), setup_(setup), shape_(setup.Shape()) {
    std::vector<float> frequency;
    for (int i = 0; i < setup.rotary_dim / 2; ++i) {
      frequency.push_back(
          static_cast<float>(std::pow(10000.0, -2.0 * i / static_cast<double>(setup.rotary_dim))));
    }
    // The rope that is used stands behind another one, which must not matter.
    const RopeTable other{{3.0f}, 5.0f};
    const RopeTable used{frequency, setup.rope_scale, setup.query_beta, setup.query_interval};
    kernels.SetRopes(std::vector<RopeTable>{other, used});
    kv_ = kernels.NewKvMemory({2, setup.kv_heads, setup.head_dim}, pages);
    const bool whole = setup.norm == QkNorm::kWhole;
    if (setup.norm != QkNorm::kNone) {
      const int query = whole ? setup.heads * setup.head_dim : setup.head_dim;
      const int key = whole ? setup.kv_heads * setup.head_dim : setup.head_dim;
      query_norm_ = kernels.LoadVector(RandomMatrix(1, query, 101).values);
      key_norm_ = kernels.LoadVector(RandomMatrix(1, key, 102).values);
    }
    if (setup.sinks) {
      sinks_ = kernels.LoadVector(RandomMatrix(1, setup.heads, 103).values);
      shape_.sinks = sinks_.get();
    }
    if (setup.value_norm) {
      value_norm_ = kernels.LoadVector(RandomMatrix(1, setup.head_dim, 104).values);
    }
    norm_ = {query_norm_.get(), key_norm_.get(), value_norm_.get(), whole, 1e-6f};
    // Whatever pages held before must not matter.
    KeyBatch stale;
    for (int slot = 0; slot < pages * kPageTokens; ++slot) {
      stale.batch.tokens.push_back(0);
      stale.batch.positions.push_back(0);
      stale.batch.slots.push_back(slot);
    }
    Store(stale.batch, ConstantMatrix(stale.batch.rows(), setup.columns(), stale_value));
  }

  // K and V of these rows into their slots.
  void Store(const Batch& batch, const HostMatrix& contents) {
    const auto step = kernels_.Upload(batch, EmptyPlan(batch.rows()));
    Tensor qkv = Fill(kernels_, contents);
    kernels_.RotateAndStore(*step, 1, shape_, norm_, qkv, *kv_);
  }

  void Copy(std::span<const PageCopy> copies) { kernels_.CopyPages(copies, *kv_); }

  AttentionResult Step(const Batch& batch, const AttentionPlan& plan, const HostMatrix& contents) {
    const auto step = kernels_.Upload(batch, plan);
    Tensor qkv = Fill(kernels_, contents);
    HostMatrix given = Read(kernels_, qkv);
    kernels_.RotateAndStore(*step, 1, shape_, norm_, qkv, *kv_);
    Tensor out = Poisoned(kernels_, batch.rows(), std::int64_t{setup_.heads} * setup_.head_dim);
    kernels_.Attend(*step, 1, shape_, qkv, *kv_, out);
    return {std::move(given), Read(kernels_, qkv), Read(kernels_, out)};
  }

 private:
  Kernels& kernels_;
  AttentionSetup setup_;
  AttentionShape shape_;
  std::shared_ptr<KvMemory> kv_;
  std::shared_ptr<const Vector> query_norm_, key_norm_, value_norm_, sinks_;
  QkNormWeights norm_;
};

inline HostMatrix Select(const HostMatrix& contents, const std::vector<int>& rows) {
  HostMatrix selected{static_cast<std::int64_t>(rows.size()), contents.columns, {}};
  for (const int row : rows) {
    const std::span<const float> source = contents.Row(row);
    selected.values.insert(selected.values.end(), source.begin(), source.end());
  }
  return selected;
}

// contents [keys, qkv columns]: what each key of the tree feeds.
inline AttentionResult RunAttention(Kernels& kernels, const AttentionSetup& setup, const Tree& tree,
                                    const HostMatrix& contents, const PlanChoice& choice) {
  AttentionRun run(kernels, setup, tree.page_count);
  const KeyBatch all = AllKeys(tree);
  run.Store(all.batch, Select(contents, all.keys));
  const KeyBatch rows = StepRows(tree);
  return run.Step(rows.batch, BuildTestPlan(tree, choice), Select(contents, rows.keys));
}

}  // namespace banyan::optest
