// Who holds which page: the KV of the forest's nodes in memory. Nodes that nobody pins stay cached
// until their pages are needed; then the least recently used leaf goes first.
//
// Invariants (CheckInvariants):
// 1. free + held = total; every held page is listed by exactly one node, at one place.
// 2. A node's filled keys are the first ones, at most its pages' room, and its parent's keys are
// all
//    filled before any of its own counts (a key is a function of everything before it).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "kernels/tensor.h"
#include "kv/page_pool.h"
#include "tree/forest.h"

namespace banyan {

class KvCache {
 public:
  // The forest must outlive the cache; nodes are removed from it by Evict alone.
  KvCache(Forest& forest, int pages);

  // Gives the node room for `keys` keys, evicting cached nodes if need be. False when even that
  // does not free enough; nothing has changed for the node then (other nodes may have been
  // evicted). REQUIRES: the node is pinned.
  [[nodiscard]] bool Reserve(NodeId node, int keys);

  // Keys of the node whose K and V are in memory.
  int filled(NodeId node) const;
  void MarkFilled(NodeId node, int keys);

  // The pages of the node's first ceil(keys / kPageTokens) pages, as kernels want them.
  std::span<const std::int32_t> Pages(NodeId node, int keys) const;
  // Where key `index` of the node lives. REQUIRES: reserved.
  std::int32_t Slot(NodeId node, int index) const;

  // The pages of `from`'s first `keys` keys and those of `to`, which is to have the same.
  // REQUIRES: filled, and reserved.
  void AddCopies(NodeId from, NodeId to, int keys, std::vector<PageCopy>& copies) const;

  // The forest divided a node: its pages follow. Call for every NodeSplit, in order.
  void Split(const NodeSplit& split);

  // Marks the path as used now.
  void Touch(NodeId node);

  // A stream's tail is of no use to anyone else: frees it at once. REQUIRES: removable.
  void Drop(NodeId node);

  // Forgets every node that nobody pins.
  void EvictAll();

  int total_pages() const { return pool_.total(); }
  int free_pages() const { return pool_.free(); }
  int peak_pages() const { return peak_; }

  // Counts of the process so far, for receipts.
  std::int64_t evicted_nodes() const { return evicted_; }

  void CheckInvariants() const;

 private:
  struct NodeKv {
    std::vector<std::int32_t> pages;
    std::int32_t filled = 0;
    std::uint64_t used = 0;  // clock of the last touch; key of by_use_
  };
  NodeKv& Of(NodeId node);
  const NodeKv* Find(NodeId node) const;
  bool EvictOne();
  void Free(NodeId node);

  Forest& forest_;
  PagePool pool_;
  std::vector<NodeKv> nodes_;               // by node index
  std::map<std::uint64_t, NodeId> by_use_;  // oldest first; every node with pages
  std::uint64_t clock_ = 0;
  int peak_ = 0;
  std::int64_t evicted_ = 0;
};

}  // namespace banyan
