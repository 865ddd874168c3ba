#include "kv/kv_cache.h"

#include <algorithm>

#include "base/error.h"
#include "plan/batch.h"

namespace banyan {
namespace {

int PagesFor(int keys) { return (keys + kPageTokens - 1) / kPageTokens; }

}  // namespace

KvCache::KvCache(Forest& forest, int pages) : forest_(forest), pool_(pages) {}

KvCache::NodeKv& KvCache::Of(NodeId node) {
  if (node.index() >= nodes_.size()) nodes_.resize(node.index() + 1);
  return nodes_[node.index()];
}

const KvCache::NodeKv* KvCache::Find(NodeId node) const {
  return node.index() < nodes_.size() ? &nodes_[node.index()] : nullptr;
}

bool KvCache::Reserve(NodeId node, int keys) {
  const int missing = PagesFor(keys) - static_cast<int>(Of(node).pages.size());
  if (missing <= 0) return true;
  while (pool_.free() < missing) {
    if (!EvictOne()) return false;
  }
  std::vector<PageId> taken;
  BANYAN_CHECK(pool_.Take(missing, taken));
  NodeKv& kv = Of(node);
  for (PageId page : taken) kv.pages.push_back(page.value);
  if (kv.used == 0) {
    kv.used = ++clock_;
    by_use_[kv.used] = node;
  }
  peak_ = std::max(peak_, pool_.total() - pool_.free());
  return true;
}

int KvCache::filled(NodeId node) const {
  const NodeKv* kv = Find(node);
  return kv == nullptr ? 0 : kv->filled;
}

void KvCache::MarkFilled(NodeId node, int keys) {
  NodeKv& kv = Of(node);
  BANYAN_CHECK(PagesFor(keys) <= static_cast<int>(kv.pages.size()));
  kv.filled = std::max(kv.filled, keys);
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
  BANYAN_CHECK(split.tokens % kPageTokens == 0);
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
  if (!upper.pages.empty()) {
    upper.used = ++clock_;
    by_use_[upper.used] = split.upper;
  }
  if (lower.pages.empty() && lower.used != 0) {
    by_use_.erase(lower.used);
    lower.used = 0;
  }
}

void KvCache::Touch(NodeId node) {
  for (NodeId id = node; id.valid(); id = forest_.at(id).parent) {
    NodeKv& kv = Of(id);
    if (kv.used == 0) continue;
    by_use_.erase(kv.used);
    kv.used = ++clock_;
    by_use_[kv.used] = id;
  }
}

void KvCache::Free(NodeId node) {
  if (node.index() >= nodes_.size()) return;
  NodeKv& kv = nodes_[node.index()];
  for (std::int32_t page : kv.pages) pool_.Give(PageId(page));
  if (kv.used != 0) by_use_.erase(kv.used);
  kv = NodeKv();
}

void KvCache::Drop(NodeId node) {
  Free(node);
  forest_.Remove(node);
}

bool KvCache::EvictOne() {
  for (const auto& [used, node] : by_use_) {
    if (!forest_.Removable(node)) continue;
    // The chain above may hold nodes without pages; they go when they become leaves.
    NodeId above = forest_.at(node).parent;
    Drop(node);
    ++evicted_;
    while (above.valid() && forest_.Removable(above) && Of(above).pages.empty()) {
      const NodeId next = forest_.at(above).parent;
      Drop(above);
      above = next;
    }
    return true;
  }
  return false;
}

void KvCache::EvictAll() {
  while (EvictOne()) {
  }
}

void KvCache::CheckInvariants() const {
  std::vector<int> listed(static_cast<size_t>(pool_.total()), 0);
  int held = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const NodeKv& kv = nodes_[i];
    const NodeId node(static_cast<std::int32_t>(i));
    if (kv.pages.empty()) {
      BANYAN_CHECK(kv.filled == 0 && kv.used == 0);
      continue;
    }
    BANYAN_CHECK(forest_.Exists(node));
    BANYAN_CHECK(by_use_.at(kv.used) == node);
    BANYAN_CHECK(kv.filled <= static_cast<int>(kv.pages.size()) * kPageTokens);
    const NodeId parent = forest_.at(node).parent;
    if (kv.filled > 0 && parent.valid()) {
      BANYAN_CHECK(filled(parent) == static_cast<int>(forest_.at(parent).tokens.size()));
    }
    for (std::int32_t page : kv.pages) {
      BANYAN_CHECK(pool_.Held(PageId(page)));
      ++listed[static_cast<size_t>(page)];
      ++held;
    }
  }
  for (int count : listed) BANYAN_CHECK(count <= 1);
  BANYAN_CHECK(held + pool_.free() == pool_.total());
  size_t with_pages = 0;
  for (const NodeKv& kv : nodes_) with_pages += kv.pages.empty() ? 0 : 1;
  BANYAN_CHECK(with_pages == by_use_.size());
}

}  // namespace banyan
