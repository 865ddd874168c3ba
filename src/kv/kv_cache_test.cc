// Who holds which page: literals, and random operations against a naive twin.
#include "kv/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "plan/batch.h"
#include "support/processor_time.h"

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

TEST(KvCacheWithStates, EveryNodeWithPagesHasASlot) {
  Forest forest(kCut, {Digest{}}, kCut);
  KvCache cache(forest, /*pages=*/10, /*slots=*/3);
  std::vector<NodeSplit> splits;
  const auto add = [&](NodeId parent, TokenId token) {
    const NodeId node = forest.AddSegment(parent, {Repeat(5, token), {}, true}, splits);
    cache.Pin(node);
    return node;
  };
  const NodeId a = add(NodeId(), 1), b = add(a, 2);
  EXPECT_EQ(cache.slots().Missing(a, 5), true);
  EXPECT_EQ(cache.slots().Missing(a, 0), false);
  ASSERT_TRUE(cache.Reserve(a, 5) && cache.Reserve(b, 5));
  EXPECT_NE(cache.slots().Of(a), cache.slots().Of(b));
  EXPECT_EQ(cache.slots().Missing(a, 5), false);
  cache.MarkFilled(a, 5);
  cache.MarkFilled(b, 5);
  cache.CheckInvariants();
  const NodeId c = add(NodeId(), 3), d = add(NodeId(), 4);
  ASSERT_TRUE(cache.Reserve(c, 5));
  EXPECT_EQ(cache.slots().available(), 0);
  EXPECT_FALSE(cache.Reserve(d, 5));  // pages are left, slots are not
  EXPECT_EQ(cache.MissingPages(d, 5), 1);
  cache.CheckInvariants();
  // A cached leaf gives its slot; the node above it keeps its own.
  cache.MarkFilled(c, 5);
  cache.Unpin(b);
  EXPECT_EQ(cache.slots().available(), 1);
  const std::int32_t freed = cache.slots().Of(b);
  ASSERT_TRUE(cache.Reserve(d, 5));
  EXPECT_EQ(cache.slots().Of(d), freed);
  EXPECT_FALSE(forest.Exists(b));
  EXPECT_EQ(cache.slots().peak(), 3);
  cache.CheckInvariants();
}

TEST(KvCacheWithStates, NodesOfAChainShareASlot) {
  Forest forest(kCut, {Digest{}}, kCut);
  KvCache cache(forest, /*pages=*/10, /*slots=*/2);
  std::vector<NodeSplit> splits;
  const auto add = [&](NodeId parent, TokenId token, bool share) {
    const NodeId node = forest.AddSegment(parent, {Repeat(5, token), {}, share}, splits);
    cache.Pin(node);
    return node;
  };
  const NodeId text = add(NodeId(), 1, true);
  const NodeId question = add(text, 2, false), last = add(question, 3, false);
  const NodeId tail = forest.AddTail(last);
  cache.Pin(tail);
  ASSERT_TRUE(cache.Reserve(text, 5) && cache.Reserve(question, 5));
  EXPECT_EQ(cache.slots().available(), 0);
  ASSERT_TRUE(cache.Reserve(last, 5, question) && cache.Reserve(tail, 6, last));
  EXPECT_EQ(cache.slots().Of(tail), cache.slots().Of(question));
  EXPECT_NE(cache.slots().Of(tail), cache.slots().Of(text));
  EXPECT_EQ(cache.slots().peak(), 2);
  for (const NodeId node : {text, question, last, tail}) cache.MarkFilled(node, 5);
  cache.CheckInvariants();
  cache.DropPinned(tail);
  cache.CheckInvariants();
  EXPECT_EQ(cache.slots().available(), 0);
  for (const NodeId node : {last, question, text}) cache.Unpin(node);
  EXPECT_EQ(cache.slots().available(), 2);
  EXPECT_EQ(cache.slots().free(), 0);  // all are cached
  cache.CheckInvariants();
  cache.DropUnused(last, text);
  EXPECT_EQ(cache.slots().free(), 1);
  cache.CheckInvariants();
  const NodeId other = add(NodeId(), 4, true);
  ASSERT_TRUE(cache.Reserve(other, 5));
  EXPECT_EQ(cache.slots().free(), 0);
  cache.CheckInvariants();
}

class KvCacheTest : public ::testing::Test {
 protected:
  // Adds and pins.
  NodeId Add(NodeId parent, const Tokens& tokens) {
    std::vector<NodeSplit> splits;
    const NodeId node = forest_.AddSegment(parent, {tokens, {}, true}, splits);
    for (const NodeSplit& split : splits) cache_.Split(split);
    cache_.Pin(node);
    cache_.CheckInvariants();
    return node;
  }

  // Adds, reserves and fills, as a stream would, and leaves it cached.
  NodeId Cached(NodeId parent, const Tokens& tokens) {
    const NodeId node = Add(parent, tokens);
    EXPECT_TRUE(cache_.Reserve(node, static_cast<int>(tokens.size())));
    cache_.MarkFilled(node, static_cast<int>(tokens.size()));
    cache_.Unpin(node);
    cache_.CheckInvariants();
    return node;
  }

  Forest forest_{kCut, Digest{}};
  KvCache cache_{forest_, 8};
};

TEST_F(KvCacheTest, ReservesWholePagesAndOnlyTheMissingOnes) {
  const NodeId node = Add(NodeId(), Repeat(20, 1));
  EXPECT_EQ(cache_.filled(node), 0);
  ASSERT_TRUE(cache_.Reserve(node, 16));
  EXPECT_EQ(cache_.pool().free(), 7);
  ASSERT_TRUE(cache_.Reserve(node, 17));
  EXPECT_EQ(cache_.pool().free(), 6);
  ASSERT_TRUE(cache_.Reserve(node, 1));
  EXPECT_EQ(cache_.pool().free(), 6);
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
  EXPECT_EQ(cache_.pool().free(), 3);
}

TEST_F(KvCacheTest, CopiesArePairsOfPagesInTheOrderOfKeys) {
  const NodeId prompt = Cached(NodeId(), Repeat(20, 1));
  const NodeId other = Add(NodeId(), Repeat(40, 2));
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
  EXPECT_EQ(cache_.pool().free(), 0);
  cache_.CheckInvariants();
}

TEST_F(KvCacheTest, PinnedNodesAndWhatIsAboveThemStay) {
  const NodeId root = Cached(NodeId(), Repeat(32, 1));
  const NodeId pinned = Cached(root, Repeat(16, 2));
  cache_.Pin(pinned);
  const NodeId loose = Cached(root, Repeat(16, 3));
  const NodeId big = Add(NodeId(), Repeat(96, 5));
  EXPECT_EQ(cache_.available_pages(), 5);  // 3 pages are held
  EXPECT_EQ(cache_.MissingPages(big, 96), 6);
  EXPECT_FALSE(cache_.Reserve(big, 96));
  EXPECT_TRUE(forest_.Exists(loose));  // what cannot be had costs nothing
  EXPECT_EQ(cache_.pool().free(), 4);
  EXPECT_TRUE(cache_.Pages(big, 0).empty());
  cache_.CheckInvariants();
  EXPECT_TRUE(cache_.Reserve(big, 80));
  EXPECT_TRUE(forest_.Exists(root) && forest_.Exists(pinned));
  EXPECT_FALSE(forest_.Exists(loose));
  EXPECT_EQ(cache_.filled(pinned), 16);
  EXPECT_EQ(cache_.available_pages(), 0);
  cache_.Unpin(big);  // no key of it was computed: nothing to keep
  EXPECT_FALSE(forest_.Exists(big));
  EXPECT_EQ(cache_.pool().free(), 5);
  cache_.Unpin(pinned);
  EXPECT_EQ(cache_.available_pages(), 8);
  cache_.EvictAll();
  EXPECT_EQ(forest_.size(), 0u);
  EXPECT_EQ(cache_.pool().free(), 8);
}

TEST_F(KvCacheTest, NodesWithoutKeysGoWithTheirLastHolder) {
  const NodeId root = Add(NodeId(), Repeat(16, 1));  // never reserved
  Cached(NodeId(), Repeat(16, 9));
  const NodeId child = Add(root, Repeat(16, 2));
  ASSERT_TRUE(cache_.Reserve(child, 16));
  cache_.Unpin(root);
  EXPECT_TRUE(forest_.Exists(root));  // the child holds it
  cache_.Unpin(child);
  EXPECT_EQ(forest_.size(), 1u);
  cache_.EvictAll();
  EXPECT_EQ(forest_.size(), 0u);
}

TEST_F(KvCacheTest, ATailIsFreedWithWhatItHas) {
  const NodeId prompt = Cached(NodeId(), Repeat(40, 1));
  cache_.Pin(prompt);
  const NodeId tail = forest_.AddTail(prompt);
  cache_.Pin(tail);
  ASSERT_TRUE(cache_.Reserve(tail, 20));
  cache_.MarkFilled(tail, 18);
  cache_.CheckInvariants();
  EXPECT_EQ(cache_.pool().free(), 3);
  cache_.DropPinned(tail);
  EXPECT_EQ(cache_.pool().free(), 5);
  EXPECT_EQ(cache_.available_pages(), 5);
  cache_.Unpin(prompt);
  EXPECT_EQ(cache_.available_pages(), 8);
  cache_.CheckInvariants();
  cache_.DropUnused(prompt);
  EXPECT_EQ(cache_.pool().free(), 8);
}

// What is dropped may end below a node that others may find: it stays cached.
TEST_F(KvCacheTest, UnusedNodesAreDroppedUpToOne) {
  const NodeId root = Cached(NodeId(), Repeat(32, 1));
  const NodeId middle = Cached(root, Repeat(32, 2));
  const NodeId leaf = Cached(middle, Repeat(32, 3));
  EXPECT_EQ(cache_.pool().free(), 2);
  cache_.DropUnused(leaf, root);
  EXPECT_FALSE(forest_.Exists(middle));
  EXPECT_TRUE(forest_.Exists(root));
  EXPECT_EQ(cache_.pool().free(), 6);
  EXPECT_EQ(cache_.available_pages(), 8);
  cache_.CheckInvariants();
  cache_.EvictAll();
  EXPECT_EQ(cache_.pool().free(), 8);
}

// A prompt that was computed in part and let go is divided: nothing is left of what had no keys.
TEST_F(KvCacheTest, ASplitForgetsTheLowerPartOfWhatWasNeverComputed) {
  const NodeId node = Add(NodeId(), Repeat(70, 1));
  ASSERT_TRUE(cache_.Reserve(node, 70));
  cache_.MarkFilled(node, 40);
  cache_.Unpin(node);
  Tokens other = Repeat(64, 1);
  other.push_back(2);
  const NodeId sibling = Add(NodeId(), other);
  EXPECT_FALSE(forest_.Exists(node));
  const NodeId upper = forest_.at(sibling).parent;
  EXPECT_EQ(cache_.filled(upper), 40);
  EXPECT_EQ(cache_.pool().free(), 4);
  cache_.CheckInvariants();
}

// Finding a victim must not look at what is held: with n nodes held, n evictions cost n log n.
TEST(KvCacheCost, EvictionDoesNotLookAtHeldNodes) {
  constexpr int kHeld = 20000, kEvicted = 20000;
  Forest forest(kCut, Digest{});
  KvCache cache(forest, kHeld + 1);
  std::vector<NodeSplit> splits;
  const auto add = [&](TokenId token) {
    const NodeId node = forest.AddSegment(NodeId(), {Tokens{token}, {}, true}, splits);
    cache.Pin(node);
    EXPECT_TRUE(cache.Reserve(node, 1));
    cache.MarkFilled(node, 1);
    return node;
  };
  for (int i = 0; i < kHeld; ++i) add(i);
  const double start = testing_support::ThreadProcessorSeconds();
  for (int i = 0; i < kEvicted; ++i) cache.Unpin(add(kHeld + i));
  const double seconds = testing_support::ThreadProcessorSeconds() - start;
  EXPECT_EQ(forest.size(), size_t{kHeld} + 1);  // the last one is cached
  // 4e8 visits take seconds on any machine; 20 000 evictions some ten milliseconds.
  EXPECT_LT(seconds, 1.0);
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
    // What goes from `node` upwards: all that nobody needs, or only what has no keys. Before the
    // call that does it.
    const auto forgotten = [&](NodeId node, bool with_keys) {
      std::vector<NodeId> gone;
      const auto needed = [&](NodeId id) {
        if (std::ranges::find(leaves, id) != leaves.end()) return true;
        return std::ranges::any_of(twins, [&](const auto& t) {
          return forest.at(t.first).parent == id && std::ranges::find(gone, t.first) == gone.end();
        });
      };
      while (node.valid() && !needed(node) && (with_keys || twins[node].filled == 0)) {
        gone.push_back(node);
        node = forest.at(node).parent;
      }
      return gone;
    };
    const auto expect_gone = [&](const std::vector<NodeId>& nodes) {
      for (const NodeId node : nodes) {
        EXPECT_FALSE(forest.Exists(node));
        twins.erase(node);
      }
    };
    // What the cache must evict to free `missing` pages, oldest leaf first; nothing when that does
    // not suffice. Before the call.
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
          if (!gone_or_free(node)) continue;
          if (!oldest.valid() || twin.used < twins[oldest].used) oldest = node;
        }
        if (!oldest.valid()) return std::pair(std::set<NodeId>(), false);
        gone.insert(oldest);
        free += static_cast<int>(twins[oldest].pages.size());
        for (NodeId above = forest.at(oldest).parent;
             above.valid() && gone_or_free(above) && twins[above].filled == 0;
             above = forest.at(above).parent) {
          gone.insert(above);
        }
      }
      return std::pair(gone, true);
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
            upper.used = ++clock;
            if (!forest.Exists(split.lower)) {  // it had no keys and no holder
              EXPECT_EQ(lower.filled, 0);
              twins.erase(split.lower);
            }
          }
        }
        for (const NodeId on_path : forest.Path(node)) twins.try_emplace(on_path);
        cache.Pin(node);
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
          twins[id].used = ++clock;
        }
      } else {
        const auto which = static_cast<size_t>(below(static_cast<int>(leaves.size())));
        const NodeId node = leaves[which];
        leaves.erase(leaves.begin() + static_cast<std::ptrdiff_t>(which));
        const std::vector<NodeId> gone = forgotten(node, false);
        cache.Unpin(node);
        expect_gone(gone);
        if (kind == 7 && forest.Exists(node)) {
          const std::vector<NodeId> dropped = forgotten(node, true);
          cache.DropUnused(node);
          expect_gone(dropped);
        }
      }
      forest.CheckInvariants();
      cache.CheckInvariants();
      ASSERT_EQ(cache.pool().free(), total - held());
      for (const auto& [node, twin] : twins) {
        ASSERT_TRUE(forest.Exists(node));
        EXPECT_EQ(cache.filled(node), twin.filled);
        EXPECT_EQ(pages_of(node), twin.pages);
      }
      EXPECT_EQ(forest.size(), twins.size());
      if (::testing::Test::HasFailure()) return;
    }
    while (!leaves.empty()) {
      cache.Unpin(leaves.back());
      leaves.pop_back();
    }
    cache.EvictAll();
    EXPECT_EQ(forest.size(), 0u);
    EXPECT_EQ(cache.pool().free(), total);
  }
}

}  // namespace
}  // namespace banyan
