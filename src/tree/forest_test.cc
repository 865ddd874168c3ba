// The forest: literal trees, and random operations against a naive twin.
#include "tree/forest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace banyan {
namespace {

constexpr int kCut = 4;

using Tokens = std::vector<TokenId>;

class ForestTest : public ::testing::Test {
 protected:
  NodeId Add(NodeId parent, const Tokens& tokens, bool share = true) {
    splits_.clear();
    const NodeId node = forest_.AddSegment(parent, {tokens, {}, share}, splits_);
    forest_.CheckInvariants();
    return node;
  }
  NodeId Add(const Tokens& tokens) { return Add(NodeId(), tokens); }

  Forest forest_{kCut, Digest{}};
  std::vector<NodeSplit> splits_;
};

TEST_F(ForestTest, EqualSegmentsAreOneNode) {
  const NodeId p = Add({1, 2, 3});
  const NodeId c = Add(p, {4, 5});
  EXPECT_EQ(Add({1, 2, 3}), p);
  EXPECT_EQ(Add(p, {4, 5}), c);
  EXPECT_EQ(forest_.size(), 2u);
  EXPECT_EQ(forest_.at(c).first_position, 3);
  EXPECT_EQ(forest_.at(c).segment_offset, 0);
  EXPECT_EQ(forest_.Path(c), (std::vector<NodeId>{p, c}));
  EXPECT_TRUE(splits_.empty());
}

TEST(ForestInPieces, SharesWholePiecesAndDividesNothing) {
  Forest forest(kCut, {Digest{}}, 2 * kCut);
  std::vector<NodeSplit> splits;
  const auto add = [&](NodeId parent, const Tokens& tokens) {
    const NodeId node = forest.AddSegment(parent, {tokens, {}, true}, splits);
    forest.CheckInvariants();
    EXPECT_TRUE(splits.empty());
    return node;
  };
  Tokens longer(19);
  for (size_t i = 0; i < longer.size(); ++i) longer[i] = static_cast<TokenId>(i);
  const NodeId end = add(NodeId(), longer);
  EXPECT_EQ(forest.Path(end).size(), 3u);  // 8, 8 and 3 tokens
  EXPECT_EQ(forest.at(end).segment_offset, 16);
  EXPECT_EQ(add(NodeId(), longer), end);
  // The second piece differs in its last token, after a whole cut that is the same.
  Tokens other = longer;
  other[15] = 99;
  const NodeId other_end = add(NodeId(), other);
  EXPECT_EQ(forest.Path(other_end)[0], forest.Path(end)[0]);
  EXPECT_NE(forest.Path(other_end)[1], forest.Path(end)[1]);
  EXPECT_EQ(forest.size(), 5u);
  // The beginning of a piece is another node; all of one is the same.
  EXPECT_EQ(add(NodeId(), {0, 1, 2, 3, 4, 5, 6, 7}), forest.Path(end)[0]);
  const NodeId beginning = add(NodeId(), {0, 1, 2, 3, 4, 5, 6});
  EXPECT_EQ(forest.at(beginning).parent, NodeId());
  EXPECT_EQ(forest.size(), 6u);
  // Tails take over what is short by cuts, not by pieces.
  EXPECT_EQ(forest.TakenOver(add(end, {1, 2})), 2);
  EXPECT_EQ(forest.TakenOver(add(end, {1, 2, 3})), 0);
}

TEST_F(ForestTest, VariantsShareNothingAndHaveNamesOfTheirOwn) {
  const Digest first{1}, second{2};
  Forest forest(kCut, std::vector<Digest>{Digest{}, first, second});
  Forest alone(kCut, first);
  const Tokens tokens = {1, 2, 3, 4, 5}, longer = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto add = [&](Forest& to, NodeId parent, const Tokens& of, std::int32_t variant) {
    const NodeId node = to.AddSegment(parent, {of, {}, true, 0, variant}, splits_);
    to.CheckInvariants();
    return node;
  };
  const NodeId roots[] = {add(forest, NodeId(), tokens, 0), add(forest, NodeId(), tokens, 1),
                          add(forest, NodeId(), tokens, 2)};
  EXPECT_EQ((std::set<NodeId>(std::begin(roots), std::end(roots))).size(), 3u);
  EXPECT_EQ(add(forest, NodeId(), tokens, 1), roots[1]);
  // What stands below a root has its variant, divided or not, and so has a tail.
  const NodeId below = add(forest, roots[1], longer, 0);
  EXPECT_EQ(forest.at(below).variant, 1);
  EXPECT_EQ(forest.at(forest.AddTail(below)).variant, 1);
  const NodeId other = add(forest, NodeId(), longer, 2);
  EXPECT_EQ(forest.at(other).variant, 2);
  EXPECT_EQ(forest.at(forest.Path(other).front()).variant, 2);
  // A name is that of a forest which has nothing but the variant.
  const NodeId same = add(alone, add(alone, NodeId(), tokens, 0), longer, 0);
  EXPECT_EQ(forest.at(below).name, alone.at(same).name);
  EXPECT_NE(forest.at(roots[0]).name, forest.at(roots[1]).name);
}

TEST_F(ForestTest, ScopesShareNothing) {
  const Tokens tokens = {1, 2, 3, 4, 5};
  const auto add = [&](NodeId parent, std::uint64_t scope) {
    const NodeId node = forest_.AddSegment(parent, {tokens, {}, true, scope}, splits_);
    forest_.CheckInvariants();
    return node;
  };
  const NodeId open = add(NodeId(), 0), mine = add(NodeId(), 7), theirs = add(NodeId(), 8);
  EXPECT_EQ(add(NodeId(), 7), mine);
  EXPECT_EQ(add(mine, 7), add(mine, 7));
  EXPECT_NE(add(mine, 7), add(theirs, 8));
  EXPECT_EQ((std::set<NodeId>{open, mine, theirs}).size(), 3u);
  EXPECT_EQ(
      (std::set<Digest>{forest_.at(open).name, forest_.at(mine).name, forest_.at(theirs).name})
          .size(),
      3u);
  // A root that is divided stays in its scope.
  splits_.clear();
  forest_.AddSegment(NodeId(), {Tokens{1, 2, 3, 4, 9}, {}, true, 7}, splits_);
  forest_.CheckInvariants();
  ASSERT_EQ(splits_.size(), 1u);
  EXPECT_EQ(add(NodeId(), 7), mine);
  EXPECT_EQ(add(NodeId(), 8), theirs);
}

TEST_F(ForestTest, OnlyWholeCutsAreShared) {
  // Six equal tokens are one whole cut and a half.
  const NodeId a = Add({1, 2, 3, 4, 5, 6, 7});
  const NodeId b = Add({1, 2, 3, 4, 5, 6, 8, 9});
  ASSERT_EQ(splits_.size(), 1u);
  EXPECT_EQ(splits_[0].lower, a);
  EXPECT_EQ(splits_[0].tokens, 4);
  const NodeId upper = splits_[0].upper;
  EXPECT_EQ(forest_.at(upper).tokens, (Tokens{1, 2, 3, 4}));
  EXPECT_EQ(forest_.at(a).tokens, (Tokens{5, 6, 7}));
  EXPECT_EQ(forest_.at(b).tokens, (Tokens{5, 6, 8, 9}));
  EXPECT_EQ(forest_.at(a).parent, upper);
  EXPECT_EQ(forest_.at(b).parent, upper);
  EXPECT_EQ(forest_.at(b).segment_offset, 4);
  EXPECT_EQ(forest_.at(b).first_position, 4);
  EXPECT_EQ(forest_.at(upper).children, 2);
  EXPECT_EQ(forest_.size(), 3u);
}

TEST_F(ForestTest, LessThanACutIsNotShared) {
  const NodeId a = Add({1, 2, 3, 4, 5});
  EXPECT_NE(Add({1, 2, 3}), a);     // a beginning, but no whole cut
  EXPECT_NE(Add({1, 2, 3, 9}), a);  // three equal tokens
  EXPECT_EQ(forest_.size(), 3u);
  EXPECT_TRUE(splits_.empty());
}

TEST_F(ForestTest, WhatIsLessThanACutIsFoundForCopying) {
  const NodeId a = Add({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(forest_.FindCommon(a).tokens, 0);  // it is the only one
  EXPECT_FALSE(forest_.FindCommon(a).node.valid());
  const NodeId b = Add({1, 2, 3, 9, 9});
  EXPECT_EQ(forest_.FindCommon(b).node, a);
  EXPECT_EQ(forest_.FindCommon(b).tokens, 3);
  const NodeId c = Add({1, 2});  // all of it
  EXPECT_EQ(forest_.FindCommon(c).node, a);
  EXPECT_EQ(forest_.FindCommon(c).tokens, 2);
  const NodeId d = Add({1, 2, 3, 9});        // of several, the one that has most
  EXPECT_EQ(forest_.FindCommon(d).node, a);  // b was divided: its first cut is a node of its own
  EXPECT_EQ(d, forest_.at(b).parent);
  EXPECT_EQ(forest_.FindCommon(Add({1, 2, 3, 9, 8})).tokens, 0);  // 8 is below that one
  // Beyond whole cuts, within the next.
  const NodeId e = Add({1, 2, 3, 4, 5, 7});
  EXPECT_EQ(forest_.FindCommon(e).node, a);
  EXPECT_EQ(forest_.FindCommon(e).tokens, 1);
  EXPECT_EQ(forest_.FindCommon(Add({2, 2, 3})).tokens, 0);
}

TEST_F(ForestTest, NothingIsInCommonElsewhere) {
  const NodeId a = Add({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(forest_.FindCommon(Add(a, {1, 2, 3, 5})).tokens, 0);  // below another parent
  EXPECT_EQ(forest_.FindCommon(Add(NodeId(), {1, 2, 3, 6}, /*share=*/false)).tokens, 0);
  const Tokens tokens{1, 2, 3, 7};
  const auto add = [&](const Forest::Segment& segment) {
    return forest_.FindCommon(forest_.AddSegment(NodeId(), segment, splits_)).tokens;
  };
  EXPECT_EQ(add({.tokens = tokens, .first_position = 1}), 0);
  EXPECT_EQ(add({.tokens = tokens, .first_position = {}, .scope = 5}), 0);
  EXPECT_EQ(add({.tokens = tokens, .first_position = {}}), 3);
}

TEST_F(ForestTest, ABeginningOfWholeCutsIsTheUpperNode) {
  const NodeId a = Add({1, 2, 3, 4, 5, 6, 7, 8, 9});
  const NodeId b = Add({1, 2, 3, 4, 5, 6, 7, 8});
  ASSERT_EQ(splits_.size(), 1u);
  EXPECT_EQ(splits_[0].upper, b);
  EXPECT_EQ(forest_.at(a).tokens, (Tokens{9}));
  // The other way round: a longer segment continues a shorter one.
  const NodeId c = Add({1, 2, 3, 4, 5, 6, 7, 8, 10});
  EXPECT_EQ(forest_.at(c).parent, b);
  EXPECT_EQ(forest_.at(c).segment_offset, 8);
  EXPECT_EQ(forest_.size(), 3u);
}

TEST_F(ForestTest, ASegmentBelowIsNotTheContinuationOfASegment) {
  const NodeId whole = Add({1, 2, 3, 4, 5, 6});
  const NodeId first = Add({1, 2, 3, 4});
  const NodeId second = Add(first, {5, 6});
  EXPECT_EQ(forest_.at(whole).parent, first);
  EXPECT_NE(second, whole);
  EXPECT_EQ(forest_.at(second).segment_offset, 0);
  EXPECT_EQ(forest_.at(whole).segment_offset, 4);
  EXPECT_EQ(forest_.at(second).first_position, forest_.at(whole).first_position);
  EXPECT_NE(forest_.at(second).name, forest_.at(whole).name);
}

TEST_F(ForestTest, NamesDoNotDependOnSplitting) {
  const Tokens tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const NodeId a = Add(tokens);
  const Digest name = forest_.at(a).name;
  Add({1, 2, 3, 4, 9});
  Add({1, 2, 3, 4, 5, 6, 7, 8, 11});
  EXPECT_EQ(forest_.at(a).tokens.size(), 2u);
  EXPECT_EQ(forest_.at(a).name, name);
  const NodeId upper = forest_.at(a).parent;

  Forest other(kCut, Digest{});
  std::vector<NodeSplit> splits;
  other.AddSegment(NodeId(), {Tokens{1, 2, 3, 4, 5, 6, 7, 8, 77}, {}, true}, splits);
  const NodeId lone =
      other.AddSegment(NodeId(), {Tokens{1, 2, 3, 4, 5, 6, 7, 8}, {}, true}, splits);
  EXPECT_EQ(other.at(lone).name, forest_.at(upper).name);
  EXPECT_EQ(other.at(other.AddSegment(NodeId(), {tokens, {}, true}, splits)).name, name);
}

TEST_F(ForestTest, NamesDependOnModelPathAndPosition) {
  std::set<Digest> names;
  names.insert(forest_.at(Add({1, 2})).name);
  names.insert(forest_.at(Add({2, 1})).name);
  names.insert(forest_.at(Add(Add({1}), {2})).name);
  splits_.clear();
  names.insert(forest_.at(forest_.AddSegment(NodeId(), {Tokens{1, 2}, 7, true}, splits_)).name);
  Forest other(kCut, Digest{1});
  names.insert(other.at(other.AddSegment(NodeId(), {Tokens{1, 2}, {}, true}, splits_)).name);
  EXPECT_EQ(names.size(), 5u);
}

TEST_F(ForestTest, PositionsTellNodesApart) {
  const NodeId a = Add({1, 2});
  const NodeId b = forest_.AddSegment(NodeId(), {Tokens{1, 2}, 5, true}, splits_);
  EXPECT_NE(a, b);
  EXPECT_EQ(forest_.at(b).first_position, 5);
  EXPECT_EQ(forest_.AddSegment(NodeId(), {Tokens{1, 2}, 5, true}, splits_), b);
  EXPECT_EQ(forest_.at(Add(b, {3})).first_position, 7);
}

TEST_F(ForestTest, UnsharedSegmentsAreFoundByNobody) {
  const NodeId own = Add(NodeId(), {1, 2, 3, 4}, false);
  EXPECT_NE(Add(NodeId(), {1, 2, 3, 4}, false), own);
  const NodeId shared = Add({1, 2, 3, 4});
  EXPECT_NE(shared, own);
  EXPECT_EQ(Add({1, 2, 3, 4}), shared);
  EXPECT_EQ(forest_.size(), 3u);
}

TEST_F(ForestTest, TailsGrowAndAreFoundByNobody) {
  const NodeId p = Add({1, 2, 3});
  const NodeId tail = forest_.AddTail(p);
  forest_.Append(tail, 4);
  forest_.Append(tail, 5);
  EXPECT_EQ(forest_.at(tail).first_position, 3);
  EXPECT_EQ(forest_.at(tail).end_position(), 5);
  EXPECT_NE(Add(p, {4, 5}), tail);
  EXPECT_FALSE(forest_.Removable(p));
  forest_.Remove(tail);
  forest_.CheckInvariants();
}

// Half a cut at most, and all of it: the answer goes on in the same segment.
TEST_F(ForestTest, TailsTakeOverShortSegments) {
  const NodeId context = Add({1, 2, 3});
  const NodeId question = Add(context, {4, 5});
  EXPECT_EQ(forest_.TakenOver(question), 2);
  const NodeId tail = forest_.AddTail(question);
  forest_.CheckInvariants();
  EXPECT_EQ(forest_.at(tail).tokens, (Tokens{4, 5}));
  EXPECT_EQ(forest_.at(tail).parent, context);
  EXPECT_EQ(forest_.at(tail).first_position, 3);
  EXPECT_EQ(forest_.at(tail).segment_offset, 0);
  EXPECT_EQ(forest_.TotalTokens(), 7);
  forest_.Append(tail, 6);
  EXPECT_EQ(forest_.at(tail).end_position(), 6);
  // The prompt stays to be found, and a second answer has a tail of its own.
  EXPECT_EQ(Add(context, {4, 5}), question);
  EXPECT_EQ(forest_.at(forest_.AddTail(question)).tokens, (Tokens{4, 5}));
  EXPECT_TRUE(forest_.Removable(question));
  EXPECT_EQ(forest_.Path(tail), (std::vector<NodeId>{context, tail}));
  EXPECT_DEATH(forest_.AddTail(tail), "growing");

  // Longer ones, and the short end of a longer one, stay what they are.
  const NodeId longer = Add(context, {7, 8, 9});
  EXPECT_EQ(forest_.TakenOver(longer), 0);
  EXPECT_EQ(forest_.at(forest_.AddTail(longer)).parent, longer);
  Add(context, {1, 1, 1, 1, 2});
  const NodeId end = Add(context, {1, 1, 1, 1, 3});
  ASSERT_EQ(forest_.at(end).tokens, (Tokens{3}));
  EXPECT_EQ(forest_.TakenOver(end), 0);

  // A prompt of one short segment has nothing above its tail.
  const NodeId root_tail = forest_.AddTail(Add({9}));
  EXPECT_FALSE(forest_.at(root_tail).parent.valid());
  EXPECT_EQ(forest_.at(root_tail).tokens, (Tokens{9}));
  forest_.CheckInvariants();
}

TEST_F(ForestTest, RemovalWantsNoPinsAndNoChildren) {
  const NodeId p = Add({1, 2, 3, 4, 5});
  const NodeId c = Add(p, {6});
  EXPECT_FALSE(forest_.Removable(p));
  forest_.Pin(c);
  EXPECT_FALSE(forest_.Removable(c));
  forest_.Unpin(c);
  forest_.Remove(c);
  forest_.Remove(p);
  forest_.CheckInvariants();
  EXPECT_FALSE(forest_.Exists(p));
  EXPECT_EQ(forest_.size(), 0u);
  EXPECT_EQ(forest_.capacity(), 2u);
  Add({1, 2, 3, 4, 5});  // is new, in a used place
  EXPECT_EQ(forest_.capacity(), 2u);
}

TEST_F(ForestTest, BrokenRulesStop) {
  const NodeId p = Add({1});
  EXPECT_DEATH(Add({}), "empty");
  EXPECT_DEATH(forest_.Unpin(p), "pins");
  EXPECT_DEATH(forest_.Append(p, 1), "growing");
  Add(p, {2});
  EXPECT_DEATH(forest_.Remove(p), "Removable");
  const NodeId tail = forest_.AddTail(p);
  EXPECT_DEATH(Add(tail, {2}), "growing");
}

// The twin: every request keeps its whole declared path and, for each of its cuts, a key that says
// all that the cut's KV depends on. Two requests share a node's token exactly when these agree.
using CutKey =
    std::vector<std::vector<TokenId>>;  // whole segments above, then this one's beginning

struct Held {
  std::vector<Tokens> segments;
  NodeId node;
  bool shared = true;
};

CutKey KeyOf(const Held& held, size_t segment, size_t end) {
  CutKey key(held.segments.begin(), held.segments.begin() + static_cast<std::ptrdiff_t>(segment));
  const Tokens& last = held.segments[segment];
  key.emplace_back(last.begin(), last.begin() + static_cast<std::ptrdiff_t>(end));
  return key;
}

// The most that any other shared node at the same place has in common, of its first cut.
int MostInCommon(const Forest& forest, NodeId id, const std::set<NodeId>& nodes) {
  const Node& node = forest.at(id);
  size_t most = 0;
  for (const NodeId other_id : nodes) {
    const Node& other = forest.at(other_id);
    if (other_id == id || !node.shared || !other.shared || other.parent != node.parent ||
        other.first_position != node.first_position ||
        other.segment_offset != node.segment_offset) {
      continue;
    }
    size_t common = 0;
    while (common < std::min(node.tokens.size(), other.tokens.size()) &&
           node.tokens[common] == other.tokens[common]) {
      ++common;
    }
    most = std::max(most, common);
  }
  EXPECT_LE(most, static_cast<size_t>(kCut));
  return static_cast<int>(most);
}

// Maps every cut of the path to (node, offset in it) and checks tokens and positions on the way.
std::map<CutKey, std::pair<NodeId, int>> CutsOf(const Forest& forest, const Held& held) {
  std::map<CutKey, std::pair<NodeId, int>> cuts;
  const std::vector<NodeId> path = forest.Path(held.node);
  size_t at = 0;
  int position = 0;
  for (size_t s = 0; s < held.segments.size(); ++s) {
    size_t done = 0;
    while (done < held.segments[s].size()) {
      const Node& node = forest.at(path.at(at));
      EXPECT_EQ(static_cast<size_t>(node.segment_offset), done);
      EXPECT_EQ(node.first_position, position);
      EXPECT_EQ(node.shared, held.shared);
      for (size_t i = 0; i < node.tokens.size(); ++i) {
        EXPECT_EQ(node.tokens[i], held.segments[s].at(done + i));
        const bool cut_ends = (i + 1) % kCut == 0 || i + 1 == node.tokens.size();
        if (!cut_ends) continue;
        cuts[KeyOf(held, s, done + i + 1)] = {path[at], static_cast<int>(i / kCut)};
      }
      done += node.tokens.size();
      position += static_cast<int>(node.tokens.size());
      ++at;
    }
    EXPECT_EQ(done, held.segments[s].size());
  }
  EXPECT_EQ(at, path.size());
  return cuts;
}

TEST(ForestProperty, RandomOperationsAgainstTwin) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    Forest forest(kCut, Digest{});
    std::vector<Held> held;
    std::vector<NodeSplit> splits;
    for (int operation = 0; operation < 60; ++operation) {
      if (below(4) != 0 || held.empty()) {
        Held next;
        next.shared = below(5) != 0;
        if (!held.empty() && below(3) == 0) {  // like another, and then on
          next.segments = held[static_cast<size_t>(below(static_cast<int>(held.size())))].segments;
          next.segments.resize(1 +
                               static_cast<size_t>(below(static_cast<int>(next.segments.size()))));
        }
        for (int s = next.segments.empty() ? 1 : below(2); s >= 0; --s) {
          Tokens tokens;
          for (int i = below(14); i >= 0; --i) tokens.push_back(below(8) == 0 ? 1 : 0);
          next.segments.push_back(tokens);
        }
        for (const Tokens& tokens : next.segments) {
          splits.clear();
          next.node = forest.AddSegment(next.node, {tokens, {}, next.shared}, splits);
          for (const NodeSplit& split : splits) {
            EXPECT_EQ(forest.at(split.lower).parent, split.upper);
            EXPECT_EQ(forest.at(split.upper).tokens.size() % kCut, 0u);
          }
        }
        forest.Pin(next.node);
        held.push_back(next);
      } else {
        const auto which = static_cast<size_t>(below(static_cast<int>(held.size())));
        NodeId node = held[which].node;
        forest.Unpin(node);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
        while (node.valid() && forest.Removable(node)) {
          const NodeId parent = forest.at(node).parent;
          forest.Remove(node);
          node = parent;
        }
      }
      forest.CheckInvariants();
      // Equal keys are the same place, and a place has one key.
      std::map<CutKey, std::pair<NodeId, int>> place_of;
      std::map<std::pair<NodeId, int>, CutKey> key_of;
      std::set<NodeId> nodes, unshared;
      for (const Held& one : held) {
        for (const NodeId node : forest.Path(one.node)) {
          nodes.insert(node);
          if (one.shared) continue;
          EXPECT_TRUE(unshared.insert(node).second) << "a private node is shared";
        }
        for (const auto& [key, place] : CutsOf(forest, one)) {
          if (!one.shared) continue;
          const bool whole = key.back().size() % kCut == 0;
          const auto [it, added] = place_of.try_emplace(key, place);
          // A last cut that is not whole is shared only where the segments are equal; when they
          // are, their keys below agree too, so only whole cuts must agree here.
          EXPECT_TRUE(!whole || it->second == place);
          EXPECT_EQ(key_of.try_emplace(place, key).first->second, key);
        }
      }
      EXPECT_EQ(forest.size(), nodes.size());
      for (const NodeId node : nodes) {
        EXPECT_EQ(forest.FindCommon(node).tokens, MostInCommon(forest, node, nodes));
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace banyan
