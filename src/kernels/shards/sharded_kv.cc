// KV memory by ranges of key heads; states whole on every shard.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/page_form.h"
#include "kernels/shards/sharded_kernels.h"

namespace banyan {

std::shared_ptr<KvMemory> ShardedKernels::NewKvMemory(const KvShape& shape, int pages) {
  auto kv = std::make_shared<ShardedKv>();
  kv->shape = shape;
  kv->pages = pages;
  for (size_t s = 0; s < count(); ++s) {
    const KvShape own = ShapeOfShard(shape, static_cast<int>(count()), static_cast<int>(s));
    kv->of_shard.push_back(shard(s).NewKvMemory(own, pages));
  }
  return kv;
}

void ShardedKernels::CopyPages(std::span<const PageCopy> copies, KvMemory& kv) {
  for (size_t s = 0; s < count(); ++s) shard(s).CopyPages(copies, *AsSharded(kv).of_shard[s]);
}

void ShardedKernels::ReadPages(const KvMemory& kv, std::span<const std::int32_t> pages,
                               std::span<std::byte> bytes) {
  const ShardedKv& all = AsSharded(kv);
  const auto runs = static_cast<size_t>(all.shape.layers) * pages.size();
  const auto whole = static_cast<size_t>(FormOf(all.shape, page_type()).layer_bytes());
  const HeadDivision heads = DivideHeads(all.shape.kv_heads, static_cast<int>(count()));
  const size_t head = whole / static_cast<size_t>(all.shape.kv_heads);
  for (size_t s = 0; s < (heads.whole ? 1 : count()); ++s) {
    const auto first = static_cast<size_t>(heads.key_heads[s].first) * head;
    const auto size = static_cast<size_t>(heads.key_heads[s].count) * head;
    std::vector<std::byte> own(runs * size);
    shard(s).ReadPages(*all.of_shard[s], pages, own);
    for (size_t run = 0; run < runs; ++run) {
      std::memcpy(bytes.data() + run * whole + first, own.data() + run * size, size);
    }
  }
}

void ShardedKernels::WritePages(std::span<const std::byte> bytes,
                                std::span<const std::int32_t> pages, KvMemory& kv) {
  const ShardedKv& all = AsSharded(kv);
  const auto runs = static_cast<size_t>(all.shape.layers) * pages.size();
  const auto whole = static_cast<size_t>(FormOf(all.shape, page_type()).layer_bytes());
  const HeadDivision heads = DivideHeads(all.shape.kv_heads, static_cast<int>(count()));
  const size_t head = whole / static_cast<size_t>(all.shape.kv_heads);
  for (size_t s = 0; s < count(); ++s) {
    const auto first = static_cast<size_t>(heads.key_heads[s].first) * head;
    const auto size = static_cast<size_t>(heads.key_heads[s].count) * head;
    std::vector<std::byte> own(runs * size);
    for (size_t run = 0; run < runs; ++run) {
      std::memcpy(own.data() + run * size, bytes.data() + run * whole + first, size);
    }
    shard(s).WritePages(own, pages, *all.of_shard[s]);
  }
}

std::shared_ptr<StateMemory> ShardedKernels::NewStateMemory(const StateShape& shape, int layers,
                                                            int slots) {
  auto states = std::make_shared<ShardedStates>();
  states->slots = slots;
  for (size_t s = 0; s < count(); ++s) {
    states->of_shard.push_back(shard(s).NewStateMemory(shape, layers, slots));
  }
  return states;
}

void ShardedKernels::CopyStates(std::span<const StateCopy> copies, StateMemory& states) {
  for (size_t s = 0; s < count(); ++s) shard(s).CopyStates(copies, *AsSharded(states).of_shard[s]);
}

// Of several devices, as if each had what the one with the most heads has.
std::int64_t ShardedKernels::KvPageBytes(const KvShape& shape) const {
  std::int64_t bytes = 0, most = 0;
  for (size_t s = 0; s < count(); ++s) {
    const KvShape own = ShapeOfShard(shape, static_cast<int>(count()), static_cast<int>(s));
    const std::int64_t page = shard(s).KvPageBytes(own);
    bytes += page;
    most = std::max(most, page);
  }
  return apart_ ? most * static_cast<std::int64_t>(count()) : bytes;
}

std::optional<std::int64_t> ShardedKernels::FreeDeviceMemory() const {
  std::optional<std::int64_t> least = shard(0).FreeDeviceMemory();
  if (!least || !apart_) return least;
  for (size_t s = 1; s < count(); ++s) least = std::min(*least, *shard(s).FreeDeviceMemory());
  return *least * static_cast<std::int64_t>(count());
}

}  // namespace banyan
