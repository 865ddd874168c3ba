#include "engine/memory/prefix_copies.h"

#include <algorithm>

#include "base/error.h"

namespace banyan {

const PrefixCopies::Copy* PrefixCopies::Find(NodeId node) const {
  if (awaiting_.empty()) return nullptr;
  const auto found = awaiting_.find(forest_.at(node).serial);
  return found == awaiting_.end() ? nullptr : &found->second;
}

void PrefixCopies::Added(NodeId node) {
  CommonPrefix common = forest_.FindCommon(node);
  // Prefers the node that its neighbour awaits, unless that shares a page less: otherwise nodes
  // that have ever more in common would wait for one another, step by step.
  while (common.tokens >= kLeastCopiedTokens) {
    const Copy* const above = Find(common.node);
    if (above == nullptr || !forest_.Exists(above->from)) break;
    const std::int32_t tokens = std::min(common.tokens, above->tokens);
    if (common.tokens - tokens >= kLeastCopiedTokens) break;
    common = {above->from.node, tokens};
  }
  if (common.tokens < kLeastCopiedTokens) return;
  cache_.Touch(common.node);
  awaiting_[forest_.at(node).serial] = {forest_.Remember(node), forest_.Remember(common.node),
                                        common.tokens};
}

// Both nodes' prefixes, shorter than a cut, are in the upper part now.
void PrefixCopies::Split(const NodeSplit& split) {
  const std::uint64_t lower = forest_.at(split.lower).serial;
  for (auto& [serial, copy] : awaiting_) {
    if (copy.from.serial == lower) copy.from = forest_.Remember(split.upper);
  }
  const auto found = awaiting_.find(lower);
  if (found == awaiting_.end()) return;
  Copy copy = found->second;
  awaiting_.erase(found);
  copy.node = forest_.Remember(split.upper);
  awaiting_[copy.node.serial] = copy;
}

std::optional<CommonPrefix> PrefixCopies::Awaited(NodeId node) const {
  std::optional<CommonPrefix> awaited;
  for (const Copy* copy = Find(node); copy != nullptr; copy = Find(copy->from.node)) {
    if (cache_.filled(copy->node.node) > 0) break;
    if (!forest_.Exists(copy->from) || !cache_.held(copy->from.node)) break;
    awaited = {copy->from.node, copy->tokens};
  }
  return awaited;
}

int PrefixCopies::Ready(NodeId node) const {
  const Copy* const copy = Find(node);
  if (copy == nullptr || cache_.filled(node) > 0 || !forest_.Exists(copy->from)) return 0;
  return std::min(copy->tokens, cache_.filled(copy->from.node));
}

// True when the copy is made or will never be.
bool PrefixCopies::Settle(const Copy& copy, std::vector<PageCopy>& copies) {
  if (!forest_.Exists(copy.node) || cache_.filled(copy.node.node) > 0) return true;
  if (!forest_.Exists(copy.from)) return true;
  const std::int32_t there = std::min(copy.tokens, cache_.filled(copy.from.node));
  const bool more_comes = there < copy.tokens && cache_.held(copy.from.node);
  if (more_comes) return false;
  if (there == 0) return true;
  cache_.AddCopies(copy.from.node, copy.node.node, there, copies);
  settled_.emplace_back(copy.node.node, there);
  copied_tokens_ += there;
  return true;
}

}  // namespace banyan
