// Who holds which page: literals, and random operations against a naive twin.
#include "kv/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "plan/batch.h"

namespace banyan {
namespace {

constexpr int kCut = 32;  // two pages

using Tokens = std::vector<TokenId>;

Tokens Repeat(int count, TokenId token) { return Tokens(static_cast<size_t>(count), token); }

TEST(PagePool, GivesWhatItHas) {
  PagePool pool(3);
  std::vector<PageId> pages;
  EXPECT_FALSE(pool.Take(4, pages));
  EXPECT_TRUE(pages.empty());
  EXPECT_EQ(pool.free(), 3);
  ASSERT_TRUE(pool.Take(2, pages));
  EXPECT_EQ(pool.free(), 1);
  EXPECT_NE(pages[0], pages[1]);
  EXPECT_TRUE(pool.Held(pages[0]));
  EXPECT_FALSE(pool.Take(2, pages));
  EXPECT_EQ(pages.size(), 2u);
  pool.Give(pages[0]);
  EXPECT_FALSE(pool.Held(pages[0]));
  EXPECT_DEATH(pool.Give(pages[0]), "held");
  EXPECT_DEATH(pool.Give(PageId(3)), "held");
}

class KvCacheTest : public ::testing::Test {
 protected:
  NodeId Add(NodeId parent, const Tokens& tokens) {
    std::vector<NodeSplit> splits;
    const NodeId node = forest_.AddSegment(parent, {tokens, {}, true}, splits);
    for (const NodeSplit& split : splits) cache_.Split(split);
    cache_.CheckInvariants();
    return node;
  }

  // Adds, reserves and fills, as a stream would, and leaves it cached.
  NodeId Cached(NodeId parent, const Tokens& tokens) {
    const NodeId node = Add(parent, tokens);
    forest_.Pin(node);
    EXPECT_TRUE(cache_.Reserve(node, static_cast<int>(tokens.size())));
    cache_.MarkFilled(node, static_cast<int>(tokens.size()));
    forest_.Unpin(node);
    cache_.CheckInvariants();
    return node;
  }

  Forest forest_{kCut, Digest{}};
  KvCache cache_{forest_, 8};
};

TEST_F(KvCacheTest, ReservesWholePagesAndOnlyTheMissingOnes) {
  const NodeId node = Add(NodeId(), Repeat(20, 1));
  forest_.Pin(node);
  EXPECT_EQ(cache_.filled(node), 0);
  ASSERT_TRUE(cache_.Reserve(node, 16));
  EXPECT_EQ(cache_.free_pages(), 7);
  ASSERT_TRUE(cache_.Reserve(node, 17));
  EXPECT_EQ(cache_.free_pages(), 6);
  ASSERT_TRUE(cache_.Reserve(node, 1));
  EXPECT_EQ(cache_.free_pages(), 6);
  EXPECT_EQ(cache_.Pages(node, 0).size(), 0u);
  EXPECT_EQ(cache_.Pages(node, 16).size(), 1u);
  EXPECT_EQ(cache_.Pages(node, 17).size(), 2u);
  const std::int32_t second = cache_.Pages(node, 17)[1];
  EXPECT_EQ(cache_.Slot(node, 18), second * kPageTokens + 2);
  EXPECT_DEATH(static_cast<void>(cache_.Slot(node, 32)), "page");
  EXPECT_DEATH(cache_.MarkFilled(node, 33), "PagesFor");
  cache_.MarkFilled(node, 20);
  cache_.MarkFilled(node, 3);  // a row fed once more takes nothing away
  EXPECT_EQ(cache_.filled(node), 20);
  EXPECT_EQ(cache_.peak_pages(), 2);
}

TEST_F(KvCacheTest, PagesFollowASplit) {
  const NodeId node = Add(NodeId(), Repeat(70, 1));
  forest_.Pin(node);
  ASSERT_TRUE(cache_.Reserve(node, 70));
  cache_.MarkFilled(node, 40);  // prefill is under way
  const std::vector<std::int32_t> pages(cache_.Pages(node, 70).begin(),
                                        cache_.Pages(node, 70).end());
  Tokens other = Repeat(64, 1);
  other.push_back(2);
  const NodeId sibling = Add(NodeId(), other);
  const NodeId upper = forest_.at(node).parent;
  ASSERT_EQ(forest_.at(sibling).parent, upper);
  EXPECT_EQ(cache_.filled(upper), 40);
  EXPECT_EQ(cache_.filled(node), 0);
  const auto upper_pages = cache_.Pages(upper, 64);
  EXPECT_TRUE(std::equal(upper_pages.begin(), upper_pages.end(), pages.begin(), pages.begin() + 4));
  EXPECT_EQ(cache_.Pages(node, 6)[0], pages[4]);
  EXPECT_EQ(cache_.free_pages(), 3);
}

TEST_F(KvCacheTest, CopiesArePairsOfPagesInTheOrderOfKeys) {
  const NodeId prompt = Cached(NodeId(), Repeat(20, 1));
  const NodeId other = Add(NodeId(), Repeat(40, 2));
  forest_.Pin(other);
  ASSERT_TRUE(cache_.Reserve(other, 40));
  std::vector<PageCopy> copies = {{7, 7}};  // what is there stays
  cache_.AddCopies(prompt, other, 20, copies);
  ASSERT_EQ(copies.size(), 3u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(copies[i + 1].from, cache_.Pages(prompt, 20)[i]);
    EXPECT_EQ(copies[i + 1].to, cache_.Pages(other, 40)[i]);
  }
  EXPECT_DEATH(cache_.AddCopies(prompt, other, 21, copies), "filled");
  EXPECT_DEATH(cache_.AddCopies(other, prompt, 1, copies), "filled");
}

TEST_F(KvCacheTest, TheLeastRecentlyUsedLeafGoesFirst) {
  const NodeId root = Cached(NodeId(), Repeat(16, 1));
  const NodeId a = Cached(root, Repeat(16, 2));
  const NodeId b = Cached(root, Repeat(16, 3));
  const NodeId c = Cached(NodeId(), Repeat(16, 4));
  cache_.Touch(a);  // now: b, c, a; root is touched with a
  const NodeId big = Add(NodeId(), Repeat(80, 5));
  forest_.Pin(big);
  ASSERT_TRUE(cache_.Reserve(big, 80));
  EXPECT_FALSE(forest_.Exists(b));
  EXPECT_TRUE(forest_.Exists(a) && forest_.Exists(c) && forest_.Exists(root));
  ASSERT_TRUE(cache_.Reserve(big, 96));
  EXPECT_FALSE(forest_.Exists(c));
  ASSERT_TRUE(cache_.Reserve(big, 112));
  EXPECT_FALSE(forest_.Exists(a));
  EXPECT_TRUE(forest_.Exists(root));  // older than nobody, but it had a child until now
  ASSERT_TRUE(cache_.Reserve(big, 128));
  EXPECT_FALSE(forest_.Exists(root));
  EXPECT_EQ(cache_.evicted_nodes(), 4);
  EXPECT_EQ(cache_.free_pages(), 0);
  cache_.CheckInvariants();
}

TEST_F(KvCacheTest, PinnedNodesAndWhatIsAboveThemStay) {
  const NodeId root = Cached(NodeId(), Repeat(32, 1));
  const NodeId pinned = Cached(root, Repeat(16, 2));
  forest_.Pin(pinned);
  const NodeId loose = Cached(root, Repeat(16, 3));
  const NodeId big = Add(NodeId(), Repeat(96, 5));
  forest_.Pin(big);
  EXPECT_FALSE(cache_.Reserve(big, 96));  // 3 pages are pinned
  EXPECT_TRUE(forest_.Exists(root) && forest_.Exists(pinned));
  EXPECT_FALSE(forest_.Exists(loose));
  EXPECT_TRUE(cache_.Pages(big, 0).empty());
  EXPECT_EQ(cache_.free_pages(), 5);
  EXPECT_EQ(cache_.filled(pinned), 16);
  cache_.CheckInvariants();
  EXPECT_TRUE(cache_.Reserve(big, 80));
  forest_.Unpin(big);
  forest_.Unpin(pinned);
  cache_.EvictAll();
  EXPECT_EQ(forest_.size(), 0u);
  EXPECT_EQ(cache_.free_pages(), 8);
}

TEST_F(KvCacheTest, NodesWithoutPagesGoWithTheirLastChild) {
  const NodeId root = Add(NodeId(), Repeat(16, 1));  // never reserved
  Cached(NodeId(), Repeat(16, 9));
  const NodeId child = Add(root, Repeat(16, 2));
  forest_.Pin(child);
  ASSERT_TRUE(cache_.Reserve(child, 16));
  forest_.Unpin(child);
  cache_.EvictAll();
  EXPECT_EQ(forest_.size(), 0u);
}

// The twin keeps, per node, a plain list of page numbers, and finds everything by looking.
TEST(KvCacheProperty, RandomOperationsAgainstTwin) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const int total = 6 + below(20);
    Forest forest(kCut, Digest{});
    KvCache cache(forest, total);
    struct Twin {
      std::vector<std::int32_t> pages;
      int filled = 0;
      std::uint64_t used = 0;
    };
    std::map<NodeId, Twin> twins;  // nodes of the forest
    std::vector<NodeId> leaves;    // pinned by us
    std::uint64_t clock = 0;
    const auto pages_of = [&](NodeId node) {
      const int keys = static_cast<int>(twins[node].pages.size()) * kPageTokens;
      const auto pages = cache.Pages(node, keys);
      return std::vector<std::int32_t>(pages.begin(), pages.end());
    };
    const auto held = [&] {
      size_t count = 0;
      for (const auto& [node, twin] : twins) count += twin.pages.size();
      return static_cast<int>(count);
    };
    const auto removable = [&](NodeId node) {
      if (std::ranges::find(leaves, node) != leaves.end()) return false;
      return std::ranges::none_of(twins,
                                  [&](const auto& t) { return forest.at(t.first).parent == node; });
    };
    const auto drop = [&](NodeId node) {
      if (!removable(node)) return;
      cache.Drop(node);
      EXPECT_FALSE(forest.Exists(node));
      twins.erase(node);
    };
    // A node that never got pages is nothing to evict: whoever added it takes it away.
    const auto forget_without_pages = [&](NodeId node) {
      while (node.valid() && twins.contains(node) && twins[node].pages.empty() && removable(node)) {
        const NodeId parent = forest.at(node).parent;
        drop(node);
        node = parent;
      }
    };
    // What the cache must evict to free `missing` pages, oldest leaf first; stops when nothing is
    // left. Done on a copy, before the call.
    const auto expected_victims = [&](int missing) {
      std::set<NodeId> gone;
      const auto gone_or_free = [&](NodeId node) {
        if (std::ranges::find(leaves, node) != leaves.end() || gone.contains(node)) return false;
        for (const auto& [other, twin] : twins) {
          if (!gone.contains(other) && forest.at(other).parent == node) return false;
        }
        return true;
      };
      int free = total - held();
      while (free < missing) {
        NodeId oldest;
        for (const auto& [node, twin] : twins) {
          if (twin.pages.empty() || !gone_or_free(node)) continue;
          if (!oldest.valid() || twin.used < twins[oldest].used) oldest = node;
        }
        if (!oldest.valid()) break;
        gone.insert(oldest);
        free += static_cast<int>(twins[oldest].pages.size());
        for (NodeId above = forest.at(oldest).parent;
             above.valid() && gone_or_free(above) && twins[above].pages.empty();
             above = forest.at(above).parent) {
          gone.insert(above);
        }
      }
      return std::pair(gone, free >= missing);
    };

    for (int operation = 0; operation < 120; ++operation) {
      const int kind = below(10);
      if (kind < 5 || leaves.empty()) {
        // A path of one to three segments, reserved from the root down, filled as far as it got.
        NodeId node;
        for (int s = 1 + below(3); s > 0; --s) {
          Tokens tokens = Repeat(1 + below(100), 0);
          if (below(3) > 0) tokens[static_cast<size_t>(below(static_cast<int>(tokens.size())))] = 1;
          std::vector<NodeSplit> splits;
          node = forest.AddSegment(node, {tokens, {}, true}, splits);
          for (const NodeSplit& split : splits) {
            cache.Split(split);
            Twin& lower = twins[split.lower];
            Twin& upper = twins[split.upper];
            const auto moved = std::min<size_t>(lower.pages.size(),
                                                static_cast<size_t>(split.tokens / kPageTokens));
            const auto middle = lower.pages.begin() + static_cast<std::ptrdiff_t>(moved);
            upper.pages.assign(lower.pages.begin(), middle);
            lower.pages.erase(lower.pages.begin(), middle);
            upper.filled = std::min(lower.filled, split.tokens);
            lower.filled -= upper.filled;
            if (!upper.pages.empty()) upper.used = ++clock;
            if (lower.pages.empty()) lower.used = 0;
          }
        }
        for (const NodeId on_path : forest.Path(node)) twins.try_emplace(on_path);
        forest.Pin(node);
        leaves.push_back(node);
        for (const NodeId on_path : forest.Path(node)) {
          Twin& twin = twins[on_path];
          const int keys = static_cast<int>(forest.at(on_path).tokens.size());
          const int missing =
              (keys + kPageTokens - 1) / kPageTokens - static_cast<int>(twin.pages.size());
          const auto [victims, fits] =
              missing > 0 ? expected_victims(missing) : std::pair(std::set<NodeId>(), true);
          const std::vector<std::int32_t> before = twin.pages;
          ASSERT_EQ(cache.Reserve(on_path, keys), fits);
          for (const NodeId victim : victims) {
            EXPECT_FALSE(forest.Exists(victim));
            twins.erase(victim);
          }
          if (!fits) {
            EXPECT_EQ(pages_of(on_path), before);
            break;
          }
          if (missing > 0) {
            twin.pages.resize(before.size() + static_cast<size_t>(missing));
            twin.pages = pages_of(on_path);
            if (twin.used == 0) twin.used = ++clock;
          }
          if (below(4) == 0) {  // a chunk of prefill
            const int part = std::max(twin.filled, below(keys));
            cache.MarkFilled(on_path, part);
            twin.filled = part;
            if (part < keys) break;
          }
          cache.MarkFilled(on_path, keys);
          twin.filled = keys;
        }
      } else if (kind < 7) {
        const auto which = static_cast<size_t>(below(static_cast<int>(leaves.size())));
        const NodeId node = leaves[which];
        cache.Touch(node);
        for (NodeId id = node; id.valid(); id = forest.at(id).parent) {
          if (!twins[id].pages.empty()) twins[id].used = ++clock;
        }
      } else {
        const auto which = static_cast<size_t>(below(static_cast<int>(leaves.size())));
        const NodeId node = leaves[which];
        forest.Unpin(node);
        leaves.erase(leaves.begin() + static_cast<std::ptrdiff_t>(which));
        const NodeId parent = forest.at(node).parent;
        if (kind == 7) drop(node);
        forget_without_pages(node);
        if (!forest.Exists(node)) forget_without_pages(parent);
      }
      forest.CheckInvariants();
      cache.CheckInvariants();
      ASSERT_EQ(cache.free_pages(), total - held());
      for (const auto& [node, twin] : twins) {
        ASSERT_TRUE(forest.Exists(node));
        EXPECT_EQ(cache.filled(node), twin.filled);
        EXPECT_EQ(pages_of(node), twin.pages);
      }
      EXPECT_EQ(forest.size(), twins.size());
      if (::testing::Test::HasFailure()) return;
    }
    while (!leaves.empty()) {
      const NodeId leaf = leaves.back();
      leaves.pop_back();
      forest.Unpin(leaf);
      forget_without_pages(leaf);
    }
    cache.EvictAll();
    EXPECT_EQ(forest.size(), 0u);
    EXPECT_EQ(cache.free_pages(), total);
  }
}

}  // namespace
}  // namespace banyan
