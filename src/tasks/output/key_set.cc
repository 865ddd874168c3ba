#include "tasks/output/key_set.h"

#include <cstring>
#include <initializer_list>

#include "base/sha256.h"

namespace banyan {

Key128 KeyOf(std::initializer_list<std::string_view> parts) {
  Sha256 hash;
  for (const std::string_view part : parts) {
    hash.Add(static_cast<std::uint64_t>(part.size())).Add(part);
  }
  const Digest digest = hash.Finish();
  Key128 key;
  std::memcpy(key.data(), digest.data(), sizeof(key));
  if (key == Key128{0, 0}) key[0] = 1;  // {0, 0} marks a free slot
  return key;
}

void AddTo(Key128& sum, const Key128& key) {
  sum[0] += key[0];
  sum[1] += key[1] + (sum[0] < key[0] ? 1 : 0);
}

size_t KeySet::Find(const Key128& key) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = static_cast<size_t>(key[0]) & mask;
  while (slots_[slot] != kEmpty && slots_[slot] != key) slot = (slot + 1) & mask;
  return slot;
}

bool KeySet::Contains(const Key128& key) const {
  return !slots_.empty() && slots_[Find(key)] == key;
}

bool KeySet::Insert(const Key128& key) {
  if (static_cast<size_t>(size_) * 4 >= slots_.size() * 3) Grow();
  Key128& slot = slots_[Find(key)];
  if (slot == key) return false;
  slot = key;
  ++size_;
  return true;
}

void KeySet::Grow() {
  const std::vector<Key128> old = std::move(slots_);
  slots_.assign(old.empty() ? 64 : old.size() * 2, kEmpty);
  for (const Key128& key : old) {
    if (key != kEmpty) slots_[Find(key)] = key;
  }
}

}  // namespace banyan
