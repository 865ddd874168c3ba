#include "kv/state_slots.h"

#include <algorithm>

#include "base/error.h"

namespace banyan {

std::int32_t StateSlots::Of(NodeId node) const {
  BANYAN_CHECK(Has(node));
  return Find(node);
}

void StateSlots::Set(NodeId node, std::int32_t slot) {
  if (node.index() >= slots_.size()) slots_.resize(node.index() + 1, -1);
  slots_[node.index()] = slot;
  ++users_[static_cast<size_t>(slot)].nodes;
  CountHeld(node, 1);
}

void StateSlots::Take(NodeId node) {
  taken_.clear();
  BANYAN_CHECK(!Has(node) && pool_.Take(1, taken_));
  Set(node, taken_.front().value);
  peak_ = std::max(peak_, total() - free());
}

void StateSlots::Join(NodeId node, NodeId before) {
  BANYAN_CHECK(!Has(node) && users_[static_cast<size_t>(Of(before))].held > 0);
  Set(node, Of(before));
}

void StateSlots::Give(NodeId node) {
  if (!Has(node)) return;
  const std::int32_t slot = Find(node);
  slots_[node.index()] = -1;
  if (--users_[static_cast<size_t>(slot)].nodes == 0) pool_.Give(PageId(slot));
}

void StateSlots::CountHeld(NodeId node, int sign) {
  if (!Has(node)) return;
  std::int32_t& held = users_[static_cast<size_t>(Find(node))].held;
  held_ += held + sign > 0 ? 1 : 0;
  held_ -= held > 0 ? 1 : 0;
  held += sign;
}

}  // namespace banyan
