#include "engine/sharing_forest.h"

#include "engine/common_beginnings.h"
#include "plan/attention_plan.h"

namespace banyan {

SharingForest::SharingForest(std::size_t variants, std::int64_t most_tokens)
    : forest_(kCutKeys, std::vector<Digest>(variants)), most_tokens_(most_tokens) {}

SharingForest::Found SharingForest::Add(NodeId parent, const Forest::Segment& segment) {
  Found found;
  const std::int64_t before = forest_.TotalTokens();
  splits_.clear();
  found.node = forest_.AddSegment(parent, segment, splits_);
  found.stored = forest_.TotalTokens() - before;
  for (const NodeSplit& split : splits_) added_.push_back(forest_.Remember(split.upper));
  if (found.stored == 0) return found;
  added_.push_back(forest_.Remember(found.node));
  const std::int32_t common = forest_.FindCommon(found.node).tokens;
  if (common >= kLeastCopiedTokens) found.copied = common;
  return found;
}

// Those with others below them have another turn.
void SharingForest::Forget() {
  for (std::size_t turns = added_.size(); turns > 0 && Full(); --turns) {
    const NodeMemory oldest = added_.front();
    added_.pop_front();
    if (forest_.Removable(oldest.node)) {
      forest_.Remove(oldest.node);
    } else {
      added_.push_back(oldest);
    }
  }
}

}  // namespace banyan
