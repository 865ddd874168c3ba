// Random forests under every option: coverage counted pair by pair, apart from CheckPlan's own way.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "plan/build.h"
#include "plan/cost.h"
#include "plan/sharing.h"
#include "support/plan_forest.h"

namespace banyan {
namespace {

bool OnPath(const std::vector<PlanNode>& nodes, int node, int row) {
  for (int i = 0; i < static_cast<int>(nodes.size()); ++i) {
    if (row < nodes[i].row_begin || row >= nodes[i].row_end) continue;
    for (; i >= 0; i = nodes[i].parent) {
      if (i == node) return true;
    }
    return false;
  }
  return false;
}

// Every (row, key on its path at or before it) once, no other pair ever.
void ExpectEachVisiblePairOnce(const AttentionPlan& plan, const PlanForest& forest) {
  const std::vector<PlanNode>& nodes = forest.nodes();
  std::int64_t visible_pairs = 0;
  for (int node = 0; node < static_cast<int>(nodes.size()); ++node) {
    const int length = nodes[node].length;
    std::vector<std::uint8_t> met(static_cast<std::size_t>(forest.rows()) * length);
    for (const WorkItem& item : plan.items) {
      if (item.span != node) continue;
      for (int row = item.reader_begin; row < item.reader_end; ++row) {
        for (int key = item.key_begin; key < item.key_end; ++key) ++met[row * length + key];
      }
    }
    for (int row = 0; row < forest.rows(); ++row) {
      const bool on_path = OnPath(nodes, node, row);
      for (int key = 0; key < length; ++key) {
        const bool visible = on_path && nodes[node].first_position + key <= forest.positions()[row];
        const int times = met[row * length + key];
        if (visible ? times != 1 : times > (on_path ? 1 : 0)) {
          FAIL() << "row " << row << " meets key " << key << " of node " << node << " " << times
                 << " times, visible: " << visible;
        }
        visible_pairs += visible;
      }
    }
  }
  const PlanStatistics count = CountPlan(plan, forest.positions());
  EXPECT_EQ(count.pairs_visible, visible_pairs);
  EXPECT_GE(count.pairs_computed, visible_pairs);
  EXPECT_GE(count.keys_read, count.keys_unique);
}

TEST(PlanProperty, EveryVisiblePairIsCoveredOnce) {
  const std::vector<PlanVariant> variants = AllPlanVariants();
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const PlanForest forest = RandomForest(seed, {.depth = 4, .own_rows = 20}).Take();
    for (std::size_t i = seed % 8; i < variants.size(); i += 8) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << variants[i].name);
      const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), variants[i].options);
      ExpectEachVisiblePairOnce(plan, forest);
      CheckPlan(plan, forest.nodes(), forest.positions());
    }
  }
}

TEST(PlanProperty, ManyForestsPassTheCheck) {
  const std::vector<PlanVariant> variants = AllPlanVariants();
  for (std::uint32_t seed = 1000; seed < 1150; ++seed) {
    const PlanForest forest =
        RandomForest(seed, {.roots = 4, .depth = 1 + static_cast<int>(seed % 6), .own_rows = 200})
            .Take();
    for (std::size_t i = seed % 4; i < variants.size(); i += 4) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << variants[i].name);
      const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), variants[i].options);
      CheckPlan(plan, forest.nodes(), forest.positions());
      for (const WorkItem& item : plan.items) {
        ASSERT_LE(item.row_end - item.row_begin, variants[i].options.max_item_rows);
      }
    }
  }
}

// The generator must reach what the properties are about.
TEST(PlanProperty, RandomForestsAreVaried) {
  int empty = 0, one_key = 0, decode = 0, prefill = 0, continued = 0, stacked = 0, roots = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const PlanForest forest = RandomForest(seed, {}).Take();
    for (const PlanNode& node : forest.nodes()) {
      const int own_rows = node.row_end - node.row_begin;
      empty += node.length == 0;
      one_key += node.length == 1;
      decode += own_rows == 1;
      prefill += own_rows > 64;
      continued += node.chunk_phase != 0;
      stacked += node.stack >= 0;
      roots += node.parent < 0;
    }
  }
  for (int count : {empty, one_key, decode, prefill, continued, stacked}) EXPECT_GE(count, 10);
  EXPECT_GT(roots, 40);
}

TEST(PlanProperty, SameInputSamePlan) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    const PlanForest forest = RandomForest(seed, {}).Take();
    PlanScratch scratch;
    AttentionPlan reused;
    for (const PlanVariant& variant : AllPlanVariants()) {
      const AttentionPlan fresh = BuildPlan(forest.nodes(), forest.positions(), variant.options);
      BuildPlan(forest.nodes(), forest.positions(), variant.options, scratch, reused);
      ASSERT_EQ(CountPlan(fresh, forest.positions()).keys_unique,
                CountPlan(reused, forest.positions(), scratch).keys_unique);
      ASSERT_EQ(fresh.items.size(), reused.items.size());
      ASSERT_EQ(fresh.merge_begin, reused.merge_begin);
      for (std::size_t i = 0; i < fresh.items.size(); ++i) {
        ASSERT_EQ(fresh.items[i].first_partial, reused.items[i].first_partial);
      }
    }
  }
}

// What sharing is for: no key is read more often by the tree than by streams alone.
TEST(PlanProperty, TreeReadsNoMoreKeysThanStreamsAlone) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const PlanForest forest = RandomForest(seed, {}).Take();
    const auto count = [&](ItemSharing sharing) {
      const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(),
                                           {.sharing = sharing, .max_item_rows = 1 << 20});
      return CountPlan(plan, forest.positions());
    };
    const PlanStatistics tree = count(ItemSharing::kTree);
    const PlanStatistics alone = count(ItemSharing::kPerStream);
    EXPECT_EQ(tree.keys_read, tree.keys_unique);
    EXPECT_LE(tree.keys_read, alone.keys_read);
    EXPECT_EQ(tree.pairs_visible, alone.pairs_visible);
  }
}

}  // namespace
}  // namespace banyan
