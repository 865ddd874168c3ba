// Pages of KV memory by number: which are free. Scarcity is a return value.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/strong_int.h"
#include "kernels/tensor.h"
#include "tree/forest.h"

namespace banyan {

class PagePool {
 public:
  explicit PagePool(int pages);

  int total() const { return static_cast<int>(held_.size()); }
  int free() const { return static_cast<int>(free_.size()); }

  // Appends `count` pages to `pages`, or returns false and takes none.
  [[nodiscard]] bool Take(int count, std::vector<PageId>& pages);
  // REQUIRES: held.
  void Give(PageId page);
  bool Held(PageId page) const { return held_[page.index()]; }

 private:
  std::vector<PageId> free_;  // the last one is taken next
  std::vector<bool> held_;
};

// Who holds which page: the KV of the forest's nodes in memory. A node is held while it, or a node
// below it, is pinned. Nodes that nobody holds stay cached until their pages are needed; then the
// least recently used leaf goes first.
//
// Invariants (CheckInvariants):
// 1. free + held + cached = total; every page that is not free is listed by one node, at one place.
// 2. A node's filled keys are the first ones, at most its pages' room, and its parent's keys are
//    all filled before any of its own counts (a key is a function of everything before it).
// 3. A node that nobody holds has filled keys: one without goes when its last holder does.
// 4. Every node that could be evicted now is a candidate. (A candidate may have been pinned since.)

class KvCache {
 public:
  // The forest must outlive the cache, which pins, unpins and removes its nodes; nobody else does.
  KvCache(Forest& forest, int pages);

  // Holds the node and all above it.
  void Pin(NodeId node);
  // What nobody holds any more stays cached if it has keys, else it is forgotten, leaf first.
  void Unpin(NodeId node);

  // Gives the node room for `keys` keys, evicting cached nodes if need be. False, and nothing has
  // changed, when there are not so many pages to be had. REQUIRES: the node is held.
  [[nodiscard]] bool Reserve(NodeId node, int keys);
  // Pages that are missing for that.
  int MissingPages(NodeId node, int keys) const;

  bool held(NodeId node) const;
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

  // A stream's tail is of no use to anyone else: unpins it and frees it at once. REQUIRES: one pin,
  // no children.
  void DropPinned(NodeId node);
  // Frees a node that nobody holds and what is above it as far as nobody needs it; not `but` and
  // what is above that.
  void DropUnused(NodeId node, NodeId but = NodeId());

  // Forgets every node that nobody holds.
  void EvictAll();

  int total_pages() const { return pool_.total(); }
  int free_pages() const { return pool_.free(); }
  // Free, or of nodes that nobody holds: what Reserve can give.
  int available_pages() const { return pool_.total() - held_pages_; }
  // That had keys so far: what the cache takes of the machine's memory, which comes with the first
  // use of a page.
  int peak_pages() const { return used_pages_; }

  // Counts of the process so far, for receipts.
  std::int64_t evicted_nodes() const { return evicted_; }

  void CheckInvariants() const;

 private:
  struct NodeKv {
    std::vector<std::int32_t> pages;
    std::int32_t filled = 0;
    std::int32_t holders = 0;  // pins of this node and of those below it
    std::uint64_t used = 0;    // clock of the last touch; key of candidates_
    bool candidate = false;
  };
  NodeKv& Of(NodeId node);
  const NodeKv* Find(NodeId node) const;
  void EvictOne();
  void Drop(NodeId node);
  void Release(NodeId node);
  void Enlist(NodeId node);
  void Delist(NodeKv& kv);

  Forest& forest_;
  PagePool pool_;
  std::vector<PageId> taken_;  // of the last Reserve
  std::vector<NodeKv> nodes_;  // by node index
  // Oldest first: nodes that became evictable. Those that are held again leave when they are met,
  // so that finding a victim costs what its release did, however many nodes are held.
  std::map<std::uint64_t, NodeId> candidates_;
  std::uint64_t clock_ = 0;
  int held_pages_ = 0;
  std::vector<bool> used_;  // of each page: it had keys
  int used_pages_ = 0;
  std::int64_t evicted_ = 0;
};

}  // namespace banyan
