#include "kv/state_slots.h"

#include <algorithm>

#include "base/error.h"

namespace banyan {

std::int32_t StateSlots::Of(NodeId node) const {
  BANYAN_CHECK(Has(node));
  return Find(node);
}

void StateSlots::Take(NodeId node) {
  if (node.index() >= slots_.size()) slots_.resize(node.index() + 1, -1);
  taken_.clear();
  BANYAN_CHECK(!Has(node) && pool_.Take(1, taken_));
  slots_[node.index()] = taken_.front().value;
  ++held_;
  peak_ = std::max(peak_, total() - free());
}

void StateSlots::Give(NodeId node) {
  if (!Has(node)) return;
  pool_.Give(PageId(Find(node)));
  slots_[node.index()] = -1;
}

}  // namespace banyan
