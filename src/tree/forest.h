// The forest of prompts: nodes are immutable runs of tokens at given positions under a parent, so
// that equal prefixes are one path. Integer work only; kv/ says which node holds which page.
//
// A declared segment (instruction, context, question …) is one node, or a chain of nodes divided at
// whole cuts where another segment with the same prefix branches off:
//
//   context A = cuts 0 1 2 3 4       [0 1 2]──[3 4]       node [0 1 2] is shared,
//   context B = cuts 0 1 2 5              └───[5]         cuts count from the segment's start
//
// What segments have in common beyond that, fewer tokens than a cut, each of them has for itself;
// FindCommon tells where it is, so that it can be copied and need not be computed.
//
// The answer of a stream is a segment of its own, its tail, unless the prompt ends with a short
// segment (at most half a cut): that one and the answer are one segment then, of which the tail has
// all, so that a step reads one piece of keys for them and not two.
//
//   context ──┬── question (prompt)          found by all streams with the same question
//             └── question answer …          the tail of one stream
//
// Where layers keep states (kernels/states.h), only the end of a node has one, and a divided node
// would have none. Such a forest is in pieces: every `piece_tokens` a segment goes on in a node of
// its own from the beginning, segments share whole pieces, or all of them, and no node is divided.
//
// Invariants (CheckInvariants):
// 1. segment_offset is a multiple of the cut; a node with segment_offset > 0 continues its parent's
//    segment, and its parent's tokens end at that offset.
// 2. Two sealed, shared children of one parent with equal offset and position differ within their
//    first cut (or are shorter than a cut and differ).
// 3. A growing node has no children and is never found.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "banyan/types.h"
#include "base/hash.h"
#include "base/strong_int.h"

namespace banyan {

struct Node {
  NodeId parent;                // invalid: a root
  std::vector<TokenId> tokens;  // one or more, except in a growing node
  std::int32_t first_position = 0;
  std::int32_t segment_offset = 0;  // tokens of its segment that lie in earlier nodes
  bool growing = false;             // the tail of a stream
  bool shared = true;               // may be found by another request
  std::int32_t children = 0;
  std::int32_t pins = 0;     // holders of this very node
  std::uint64_t serial = 0;  // no other node of the forest ever has the same
  std::uint64_t scope = 0;   // of a root: who may find it
  std::int32_t variant = 0;  // of the model that computes it: of a root and all below it the same
  Digest name{};             // of (root name, path of tokens and positions); zero for growing nodes

  std::int32_t end_position() const {
    return first_position + static_cast<std::int32_t>(tokens.size());
  }
};

// A reference to a node that may be gone: ids are reused, serials are not.
struct NodeMemory {
  NodeId node;
  std::uint64_t serial = 0;
};

// A node was divided: `upper` is new and took the first `tokens` tokens, `lower` keeps its id.
struct NodeSplit {
  NodeId upper, lower;
  std::int32_t tokens = 0;
};

// The first `tokens` tokens of a node, which another one begins with too.
struct CommonPrefix {
  NodeId node;
  std::int32_t tokens = 0;  // 0: none, and no node
};

// Where a run of tokens stands: what comes before it, and how far into its segment it begins.
struct RunPlace {
  Digest above{};  // the name of what comes before
  std::int32_t first_position = 0;
  std::int32_t segment_offset = 0;
};

// Names are a chain of hashes over the path's cuts, each with its place: of the same cut the same,
// whether its segment is one node or several. One name for each cut of the run; the last one is the
// run's own.
std::vector<Digest> CutNames(const RunPlace& place, std::span<const TokenId> tokens,
                             int cut_tokens);

class Forest {
 public:
  // `root_names` is what the model and its settings contribute to every node's name, by variant of
  // the model: nodes of different ones have nothing in common.
  // `piece_tokens`: a multiple of the cut; 0: not in pieces.
  Forest(int cut_tokens, std::vector<Digest> root_names, int piece_tokens = 0);
  Forest(int cut_tokens, const Digest& root_name)
      : Forest(cut_tokens, std::vector<Digest>{root_name}) {}
  Forest(const Forest&) = delete;  // its index refers to it
  Forest& operator=(const Forest&) = delete;

  struct Segment {
    std::span<const TokenId> tokens;             // not empty
    std::optional<std::int32_t> first_position;  // nothing: right after the parent
    bool share = true;                           // false: always a new node, never found
    std::uint64_t scope = 0;   // of a root: found only by segments of the same scope
    std::int32_t variant = 0;  // of a root: which of the root names; nodes below inherit it
  };

  // Finds or adds the segment under `parent` (invalid: as a root) and returns the node of its last
  // token. Divisions that were needed are appended to `splits`.
  NodeId AddSegment(NodeId parent, const Segment& segment, std::vector<NodeSplit>& splits);

  // Of the shared nodes that begin where `node` does, the one that agrees with it in most tokens.
  // These are fewer than a cut, or all of a node that is shorter; a key and a value of them is the
  // same in both nodes. Of several the oldest neighbour in order. REQUIRES: sealed.
  CommonPrefix FindCommon(NodeId node) const;

  // The tail of a stream whose prompt ends with `leaf`: a growing node. It begins with the leaf's
  // tokens and stands beside it, or is empty and right after it, as TakenOver says.
  NodeId AddTail(NodeId leaf);
  // Tokens that a tail begins with: all of a short segment, or none.
  std::int32_t TakenOver(NodeId leaf) const;
  void Append(NodeId tail, TokenId token);

  void Pin(NodeId node) { ++nodes_[node.index()].pins; }
  void Unpin(NodeId node);

  // REQUIRES: no pins, no children.
  void Remove(NodeId node);
  bool Removable(NodeId node) const;

  const Node& at(NodeId node) const { return nodes_[node.index()]; }
  RunPlace PlaceOf(NodeId node) const;
  bool Exists(NodeId node) const;
  NodeMemory Remember(NodeId node) const { return {node, at(node).serial}; }
  bool Exists(const NodeMemory& memory) const {
    return Exists(memory.node) && at(memory.node).serial == memory.serial;
  }
  // Root first.
  std::vector<NodeId> Path(NodeId node) const;
  size_t size() const { return nodes_.size() - free_.size(); }
  // Of all nodes.
  std::int64_t TotalTokens() const { return total_tokens_; }
  // Upper bound of node indices, for tables beside the forest.
  size_t capacity() const { return nodes_.size(); }

  void CheckInvariants() const;

 private:
  // Of roots: who may find them.
  struct RootKey {
    std::uint64_t scope = 0;
    std::int32_t variant = 0;
    bool operator==(const RootKey&) const = default;
  };
  // What shared sealed nodes are looked up by: where they begin, and their first cut (or all their
  // tokens when they are shorter, since sharing is by whole cuts or by equality).
  struct Beginning {
    NodeId parent;
    std::int32_t position = 0, offset = 0;
    RootKey root = {};  // of a root
    std::span<const TokenId> tokens;

    bool SamePlace(const Beginning& other) const;
    bool operator<(const Beginning& other) const;
  };
  struct Before {
    using is_transparent = void;
    const Forest* forest;
    bool operator()(NodeId a, NodeId b) const {
      return forest->BeginningOf(a) < forest->BeginningOf(b);
    }
    bool operator()(NodeId a, const Beginning& b) const { return forest->BeginningOf(a) < b; }
    bool operator()(const Beginning& a, NodeId b) const { return a < forest->BeginningOf(b); }
  };
  Beginning BeginningOf(NodeId node) const;
  NodeId FindChild(const Beginning& beginning) const;
  NodeId NewNode(Node node);
  void Rename(NodeId node);
  NodeId Add(NodeId parent, const Segment& segment, Node node);
  NodeSplit Split(NodeId node, std::int32_t tokens);

  const std::int32_t cut_;        // what is shared comes in such units: a cut, or a piece
  const std::int32_t named_cut_;  // a cut, of which names are made
  const std::int32_t short_;      // tokens of a segment that a tail takes over, at most
  const bool in_pieces_;
  std::vector<Digest> root_names_;  // by variant
  std::vector<Node> nodes_;
  std::vector<NodeId> free_;
  std::vector<bool> alive_;
  std::int64_t total_tokens_ = 0;
  std::uint64_t next_serial_ = 1;
  // Shared sealed nodes. Those that begin at one place stand together, in order of their tokens, so
  // that none has more in common with a node than one of its neighbours.
  std::set<NodeId, Before> index_{Before{this}};
};

}  // namespace banyan
