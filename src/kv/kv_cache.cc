#include "kv/kv_cache.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "base/error.h"
#include "plan/batch.h"

namespace banyan {
namespace {

int PagesFor(int keys) { return (keys + kPageTokens - 1) / kPageTokens; }

}  // namespace

EvictionOrder::Use& EvictionOrder::Of(NodeId node) {
  if (node.index() >= uses_.size()) uses_.resize(node.index() + 1);
  return uses_[node.index()];
}

void EvictionOrder::Touch(NodeId node) {
  const bool listed = Contains(node);
  Remove(node);
  Of(node).time = ++clock_;
  if (listed) Add(node);
}

void EvictionOrder::TouchIfNew(NodeId node) {
  if (Of(node).time == 0) Touch(node);
}

void EvictionOrder::Add(NodeId node) {
  Use& use = Of(node);
  if (use.listed) return;
  use.listed = true;
  listed_[use.time] = node;
}

void EvictionOrder::Remove(NodeId node) {
  Use& use = Of(node);
  if (use.listed) listed_.erase(use.time);
  use.listed = false;
}

void EvictionOrder::Forget(NodeId node) {
  Remove(node);
  Of(node) = Use();
}

NodeId EvictionOrder::TakeOldest() {
  BANYAN_CHECK(!listed_.empty());
  const NodeId node = listed_.begin()->second;
  Remove(node);
  return node;
}

bool EvictionOrder::Contains(NodeId node) const {
  return node.index() < uses_.size() && uses_[node.index()].listed;
}

KvCache::KvCache(Forest& forest, int pages, int slots)
    : forest_(forest), pool_(pages), slots_(slots), used_(static_cast<size_t>(pages)) {}

KvCache::NodeKv& KvCache::Of(NodeId node) {
  if (node.index() >= nodes_.size()) nodes_.resize(node.index() + 1);
  return nodes_[node.index()];
}

const KvCache::NodeKv* KvCache::Find(NodeId node) const {
  return node.index() < nodes_.size() ? &nodes_[node.index()] : nullptr;
}

void KvCache::Pin(NodeId node) {
  forest_.Pin(node);
  for (NodeId id = node; id.valid(); id = forest_.at(id).parent) {
    NodeKv& kv = Of(id);
    if (++kv.holders > 1) continue;
    held_pages_ += static_cast<int>(kv.pages.size());
    slots_.CountHeld(id, 1);
  }
}

void KvCache::Unpin(NodeId node) {
  forest_.Unpin(node);
  for (NodeId id = node; id.valid(); id = forest_.at(id).parent) {
    NodeKv& kv = Of(id);
    BANYAN_CHECK(kv.holders > 0);
    if (--kv.holders > 0) continue;
    held_pages_ -= static_cast<int>(kv.pages.size());
    slots_.CountHeld(id, -1);
  }
  Release(node);
}

int KvCache::MissingPages(NodeId node, int keys) const {
  const NodeKv* kv = Find(node);
  const int there = kv == nullptr ? 0 : static_cast<int>(kv->pages.size());
  return std::max(0, PagesFor(keys) - there);
}

bool KvCache::Reserve(NodeId node, int keys, NodeId before) {
  const int missing = MissingPages(node, keys);
  const bool slot = slots_.Missing(node, keys), own = slot && !before.valid();
  if (missing == 0 && !slot) return true;
  BANYAN_CHECK(Of(node).holders > 0);
  if (missing > available_pages() || (own && slots_.available() == 0)) return false;
  while (pool_.free() < missing || (own && slots_.free() == 0)) EvictOne();
  if (own) {
    slots_.Take(node);
  } else if (slot) {
    slots_.Join(node, before);
  }
  taken_.clear();
  BANYAN_CHECK(pool_.Take(missing, taken_));
  NodeKv& kv = Of(node);
  for (PageId page : taken_) kv.pages.push_back(page.value);
  held_pages_ += missing;
  evictable_.TouchIfNew(node);
  return true;
}

int KvCache::filled(NodeId node) const {
  const NodeKv* kv = Find(node);
  return kv == nullptr ? 0 : kv->filled;
}

bool KvCache::held(NodeId node) const {
  const NodeKv* kv = Find(node);
  return kv != nullptr && kv->holders > 0;
}

void KvCache::MarkFilled(NodeId node, int keys) {
  NodeKv& kv = Of(node);
  BANYAN_CHECK(PagesFor(keys) <= static_cast<int>(kv.pages.size()));
  if (keys <= kv.filled) return;
  for (int i = PagesFor(kv.filled); i < PagesFor(keys); ++i) {
    const auto page = static_cast<size_t>(kv.pages[static_cast<size_t>(i)]);
    used_pages_ += used_[page] ? 0 : 1;
    used_[page] = true;
  }
  kv.filled = keys;
}

std::span<const std::int32_t> KvCache::Pages(NodeId node, int keys) const {
  const NodeKv* kv = Find(node);
  const auto count = static_cast<size_t>(PagesFor(keys));
  if (count == 0) return {};
  BANYAN_CHECK(kv != nullptr && count <= kv->pages.size());
  return std::span(kv->pages).first(count);
}

std::int32_t KvCache::Slot(NodeId node, int index) const {
  const NodeKv* kv = Find(node);
  const auto page = static_cast<size_t>(index / kPageTokens);
  BANYAN_CHECK(kv != nullptr && page < kv->pages.size());
  return kv->pages[page] * kPageTokens + index % kPageTokens;
}

void KvCache::AddCopies(NodeId from, NodeId to, int keys, std::vector<PageCopy>& copies) const {
  BANYAN_CHECK(keys <= filled(from));
  const std::span<const std::int32_t> source = Pages(from, keys), target = Pages(to, keys);
  for (size_t i = 0; i < source.size(); ++i) copies.push_back({source[i], target[i]});
}

void KvCache::Split(const NodeSplit& split) {
  BANYAN_CHECK(split.tokens % kPageTokens == 0 && !slots_.any());
  Of(split.upper);  // may move the table: take references afterwards
  NodeKv& lower = Of(split.lower);
  NodeKv& upper = Of(split.upper);
  BANYAN_CHECK(upper.pages.empty());
  const size_t pages =
      std::min(lower.pages.size(), static_cast<size_t>(split.tokens / kPageTokens));
  upper.pages.assign(lower.pages.begin(), lower.pages.begin() + static_cast<std::ptrdiff_t>(pages));
  lower.pages.erase(lower.pages.begin(), lower.pages.begin() + static_cast<std::ptrdiff_t>(pages));
  upper.filled = std::min(lower.filled, split.tokens);
  lower.filled -= upper.filled;
  upper.holders = lower.holders;
  evictable_.Touch(split.upper);
  if (lower.filled == 0) evictable_.Remove(split.lower);
  if (lower.holders == 0 && lower.filled == 0) Release(split.lower);
}

void KvCache::Touch(NodeId node) {
  for (NodeId id = node; id.valid(); id = forest_.at(id).parent) evictable_.Touch(id);
}

// To be called when a node may have lost its last holder or child.
void KvCache::Release(NodeId node) {
  while (node.valid() && forest_.Removable(node)) {
    if (Of(node).filled > 0) return evictable_.Add(node);
    const NodeId parent = forest_.at(node).parent;
    Drop(node);
    node = parent;
  }
}

void KvCache::Drop(NodeId node) {
  NodeKv& kv = Of(node);
  BANYAN_CHECK(kv.holders == 0);
  for (std::int32_t page : kv.pages) pool_.Give(PageId(page));
  slots_.Give(node);
  evictable_.Forget(node);
  kv = NodeKv();
  forest_.Remove(node);
}

void KvCache::DropPinned(NodeId node) {
  Of(node).filled = 0;
  Unpin(node);
  BANYAN_CHECK(!forest_.Exists(node));
}

void KvCache::DropUnused(NodeId node, NodeId but) {
  while (node.valid() && node != but && forest_.Removable(node)) {
    const NodeId parent = forest_.at(node).parent;
    Drop(node);
    node = parent;
  }
  if (node.valid() && node == but) Release(node);
}

// REQUIRES: a page of a node that is not held.
void KvCache::EvictOne() {
  for (;;) {
    const NodeId node = evictable_.TakeOldest();
    if (!forest_.Removable(node)) continue;
    const NodeId parent = forest_.at(node).parent;
    Drop(node);
    return Release(parent);
  }
}

void KvCache::EvictAll() {
  while (pool_.free() < available_pages()) EvictOne();
}

void KvCache::CheckInvariants() const {
  std::vector<int> listed(static_cast<size_t>(pool_.total()), 0);
  std::vector<std::int32_t> holders(nodes_.size(), 0);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    NodeId node(static_cast<std::int32_t>(i));
    if (!forest_.Exists(node)) continue;
    const std::int32_t pins = forest_.at(node).pins;
    for (; pins > 0 && node.valid(); node = forest_.at(node).parent) holders[node.index()] += pins;
  }
  int with_pages = 0, held = 0;
  std::map<std::int32_t, bool> held_slots;  // of nodes
  size_t evictable = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const NodeKv& kv = nodes_[i];
    const NodeId node(static_cast<std::int32_t>(i));
    if (!forest_.Exists(node)) {
      BANYAN_CHECK(kv.pages.empty() && kv.filled == 0 && kv.holders == 0 && !slots_.Has(node));
      BANYAN_CHECK(!evictable_.Contains(node));
      continue;
    }
    BANYAN_CHECK(kv.holders == holders[i]);
    BANYAN_CHECK(kv.holders > 0 || kv.filled > 0);
    BANYAN_CHECK(evictable_.Contains(node) || !forest_.Removable(node));
    evictable += evictable_.Contains(node) ? 1 : 0;
    BANYAN_CHECK(kv.filled <= static_cast<int>(kv.pages.size()) * kPageTokens);
    const NodeId parent = forest_.at(node).parent;
    if (kv.filled > 0 && parent.valid()) {
      BANYAN_CHECK(filled(parent) == static_cast<int>(forest_.at(parent).tokens.size()));
    }
    for (std::int32_t page : kv.pages) {
      BANYAN_CHECK(pool_.Held(PageId(page)));
      ++listed[static_cast<size_t>(page)];
    }
    BANYAN_CHECK(slots_.Has(node) == (slots_.any() && !kv.pages.empty()));
    if (slots_.Has(node)) {
      const auto [slot, first] = held_slots.try_emplace(slots_.Of(node), kv.holders > 0);
      BANYAN_CHECK(slot->second == (kv.holders > 0));
    }
    with_pages += static_cast<int>(kv.pages.size());
    if (kv.holders > 0) held += static_cast<int>(kv.pages.size());
  }
  for (int count : listed) BANYAN_CHECK(count <= 1);
  BANYAN_CHECK(with_pages + pool_.free() == pool_.total());
  BANYAN_CHECK(held == held_pages_);
  BANYAN_CHECK(static_cast<int>(held_slots.size()) + slots_.free() == slots_.total());
  BANYAN_CHECK(std::ranges::count(held_slots | std::views::values, true) ==
               slots_.total() - slots_.available());
  BANYAN_CHECK(evictable == evictable_.size());
}

}  // namespace banyan
