// Prefixes that segments have in common, computed once and copied. Two segments under one parent
// that agree in fewer tokens than a cut are two nodes, because cuts count from a segment's start
// and are never divided. Keys and values of the common tokens are the same in both, bit for bit:
// they depend on what comes before them and on where their segment begins. The newer node gets
// copies of the older one's pages.
//
// A copy is made between steps. If the older node is not computed that far, its prefix is computed
// first, as part of the stream that wants it, and the newer node's rows wait for the next step.
// Where another step costs more than the rows, the prefix is computed twice instead.
//
// Invariants:
// 1. A node awaits a prefix of a node that was older when it was added, or of its upper part, so
//    there is no circular wait.
// 2. A node that awaits one has no keys. It awaits only what a running stream computes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kv/kv_cache.h"
#include "plan/batch.h"
#include "tree/forest.h"

namespace banyan {

// Fewer common tokens are computed again: copies are whole pages, and may have to wait a step.
inline constexpr std::int32_t kLeastCopiedTokens = kPageTokens;

class PrefixCopies {
 public:
  // Both must outlive it.
  // `worth_a_step`: tokens that all waiting nodes together must save, else they are computed.
  PrefixCopies(const Forest& forest, KvCache& cache, std::int64_t worth_a_step = 0)
      : forest_(forest), cache_(cache), worth_a_step_(worth_a_step) {}

  // A node is new in the forest. What it will be copied from counts as used now.
  void Added(NodeId node);
  // The forest divided a node: call after KvCache::Split.
  void Split(const NodeSplit& split);

  // The prefix that must be computed before rows of the node are; nothing: none.
  std::optional<CommonPrefix> Awaited(NodeId node) const;
  // Keys that a copy would give the node now.
  int Ready(NodeId node) const;

  // Appends the copies that can be made now to `copies`; their keys count as filled. No copy reads
  // the result of another: make these and call again until there are none. Nodes for which `loads`
  // is true get their keys from the KV store. REQUIRES: nodes that were added are reserved or gone.
  template <class Loads>
  void Take(const Loads& loads, std::vector<PageCopy>& copies) {
    std::int64_t awaited = 0;
    for (auto it = awaiting_.begin(); it != awaiting_.end();) {
      const bool settled = !loads(it->second.node.node) && Settle(it->second, copies);
      awaited += settled ? 0 : it->second.tokens;
      it = settled ? awaiting_.erase(it) : std::next(it);
    }
    for (const auto& [node, keys] : settled_) cache_.MarkFilled(node, keys);
    if (settled_.empty() && awaited < worth_a_step_) awaiting_.clear();
    settled_.clear();
  }

  std::int64_t copied_tokens() const { return copied_tokens_; }

 private:
  struct Copy {
    NodeMemory node, from;
    std::int32_t tokens = 0;
  };
  const Copy* Find(NodeId node) const;
  bool Settle(const Copy& copy, std::vector<PageCopy>& copies);

  const Forest& forest_;
  KvCache& cache_;
  const std::int64_t worth_a_step_;
  std::map<std::uint64_t, Copy> awaiting_;       // by the node's serial: older ones first
  std::vector<std::pair<NodeId, int>> settled_;  // of one Take, with their keys
  std::int64_t copied_tokens_ = 0;
};

}  // namespace banyan
