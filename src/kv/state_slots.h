// Which node of the forest holds which slot for its state (kernels/states.h): the state after the
// node's last filled key. Nodes of which each begins with the state that the one before leaves, and
// nothing else does, hold one slot together: it has the state after the last of them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/strong_int.h"
#include "kv/page_pool.h"

namespace banyan {

class StateSlots {
 public:
  explicit StateSlots(int slots) : pool_(slots), users_(static_cast<size_t>(slots)) {}

  // 0: the model keeps no states.
  int total() const { return pool_.total(); }
  bool any() const { return total() > 0; }
  int free() const { return pool_.free(); }
  // Free, or of nodes that are not held.
  int available() const { return total() - held_; }
  int peak() const { return peak_; }  // most that nodes had at once

  bool Has(NodeId node) const { return Find(node) >= 0; }
  // Whether the node lacks one that it needs for so many keys.
  bool Missing(NodeId node, int keys) const { return any() && keys > 0 && !Has(node); }
  // REQUIRES: it has one.
  std::int32_t Of(NodeId node) const;

  // For a held node. REQUIRES: one is free.
  void Take(NodeId node);
  // A held node goes on in the slot of another one that is held.
  void Join(NodeId node, NodeId before);
  void Give(NodeId node);  // of a node that is not held; it may have none
  // The node has its first holder now (1), or has lost its last one (-1).
  void CountHeld(NodeId node, int sign);

 private:
  struct Users {
    std::int32_t nodes = 0, held = 0;
  };
  std::int32_t Find(NodeId node) const {
    return node.index() < slots_.size() ? slots_[node.index()] : -1;
  }
  void Set(NodeId node, std::int32_t slot);

  PagePool pool_;
  std::vector<std::int32_t> slots_;  // by node index; -1: none
  std::vector<Users> users_;         // of each slot
  std::vector<PageId> taken_;        // reused
  int held_ = 0, peak_ = 0;
};

}  // namespace banyan
