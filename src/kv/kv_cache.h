// Which node of the forest holds which page of KV memory, and which nodes are evicted.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/strong_int.h"
#include "kernels/tensor.h"
#include "kv/page_pool.h"
#include "kv/state_slots.h"
#include "tree/forest.h"

namespace banyan {

// Nodes that may be evicted, in the order of their last use.
class EvictionOrder {
 public:
  // The node is used now.
  void Touch(NodeId node);
  void TouchIfNew(NodeId node);
  // Lists the node at its last use, if it is not listed. REQUIRES: touched.
  void Add(NodeId node);
  void Remove(NodeId node);
  // The node is gone, and its id may be reused.
  void Forget(NodeId node);
  // The least recently used node that is listed; it is not listed any more.
  NodeId TakeOldest();

  bool Contains(NodeId node) const;
  size_t size() const { return listed_.size(); }

 private:
  struct Use {
    std::uint64_t time = 0;  // of the last touch; 0: none
    bool listed = false;
  };
  Use& Of(NodeId node);

  std::vector<Use> uses_;  // by node index
  std::map<std::uint64_t, NodeId> listed_;
  std::uint64_t clock_ = 0;
};

// The KV of the forest's nodes in memory. A node is held while it, or a node below it, is pinned.
// Other nodes stay cached until their pages are needed; then the least recently used leaf is
// evicted first.
//
// Where layers keep states (kernels/states.h), a node with pages has a slot too, perhaps together
// with others (kv/state_slots.h). Slots are numbered like pages.
//
// Invariants (CheckInvariants):
// 1. free + held + cached = total, of pages and of slots; every page that is not free is listed by
// one node, at one place. Nodes that have a slot together are held together.
// 2. A node's filled keys are the first ones, at most its pages' room, and its parent's keys are
//    all filled before any of its own counts (a key is a function of everything before it).
// 3. A node that is not held has filled keys: one without is removed with its last holder.
// 4. Every node that could be evicted now is in evictable_. (It may also have nodes that were
// pinned
//    since: they are removed when they are met, so that finding a victim does not depend on how
//    many nodes are held.)
class KvCache {
 public:
  // The forest must outlive the cache. Only the cache pins, unpins and removes its nodes.
  // `slots` 0: there are no states. REQUIRES: with states the forest is in pieces.
  KvCache(Forest& forest, int pages, int slots = 0);

  // Holds the node and all above it.
  void Pin(NodeId node);
  // Nodes that are not held any more stay cached if they have keys, else they are removed.
  void Unpin(NodeId node);

  // Gives the node pages for `keys` keys and, with states, a slot, evicting cached nodes if
  // necessary. False, and nothing has changed, when there are too few. The slot is that of `before`
  // where it is valid, which must be held as long. REQUIRES: the node is held.
  [[nodiscard]] bool Reserve(NodeId node, int keys, NodeId before = NodeId());
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

  // Unpins a stream's tail and frees it at once: no other stream can use it. REQUIRES: one pin, no
  // children.
  void DropPinned(NodeId node);
  // Frees a node that is not held, and the nodes above it that are not needed, up to `but`, which
  // stays.
  void DropUnused(NodeId node, NodeId but = NodeId());

  // Removes every node that is not held.
  void EvictAll();

  const PagePool& pool() const { return pool_; }
  // Free, or of nodes that are not held: what Reserve can give.
  int available_pages() const { return pool_.total() - held_pages_; }
  const StateSlots& slots() const { return slots_; }
  // Pages that had keys so far: the system's memory that the cache takes, since a page takes memory
  // with its first use.
  int peak_pages() const { return used_pages_; }

  void CheckInvariants() const;

 private:
  struct NodeKv {
    std::vector<std::int32_t> pages;
    std::int32_t filled = 0;
    std::int32_t holders = 0;  // pins of this node and of those below it
  };
  NodeKv& Of(NodeId node);
  const NodeKv* Find(NodeId node) const;
  void EvictOne();
  void Drop(NodeId node);
  void Release(NodeId node);

  Forest& forest_;
  PagePool pool_;
  StateSlots slots_;
  std::vector<PageId> taken_;  // of the last Reserve
  std::vector<NodeKv> nodes_;  // by node index
  EvictionOrder evictable_;
  int held_pages_ = 0;
  std::vector<bool> used_;  // of each page: it had keys
  int used_pages_ = 0;
};

}  // namespace banyan
