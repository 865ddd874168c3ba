#include "text/vocabulary.h"

#include <functional>
#include <limits>

#include "base/error.h"

namespace banyan {
namespace {

size_t HashOf(std::string_view token) { return std::hash<std::string_view>{}(token); }

}  // namespace

void Vocabulary::Add(std::int64_t id, std::string_view token, const std::string& what) {
  if (id < 0 || id > kMaxId) {
    Throw(ErrorKind::kFormat, "{}: token '{}' has id {}, expected 0 to {}", what,
          token.substr(0, 64), id, kMaxId);
  }
  if (token.size() > std::numeric_limits<std::uint16_t>::max()) {
    Throw(ErrorKind::kFormat, "{}: token {} has {} bytes, at most 65535 are allowed", what, id,
          token.size());
  }
  if ((entries_.size() + 1) * 2 > slots_.size()) Rehash(slots_.empty() ? 64 : slots_.size() * 2);
  entries_.push_back(
      {characters_.size(), static_cast<std::uint32_t>(token.size()), static_cast<TokenId>(id)});
  characters_ += token;
  const auto entry = static_cast<std::uint32_t>(entries_.size());
  const size_t hash = HashOf(token);
  const size_t slot = SlotFor(token, hash);
  slots_[slot] = entry;
  hashes_[slot] = static_cast<std::uint32_t>(hash >> 32);
  const auto index = static_cast<size_t>(id);
  if (index >= spans_.size()) spans_.resize(index + 1, 0);
  spans_[index] = entry;
}

// The slot that holds `token`, or the free one where it belongs.
size_t Vocabulary::SlotFor(std::string_view token, size_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto high = static_cast<std::uint32_t>(hash >> 32);
  size_t slot = hash & mask;
  while (slots_[slot] != 0) {
    if (hashes_[slot] == high && TextOf(entries_[slots_[slot] - 1]) == token) break;
    slot = (slot + 1) & mask;
  }
  return slot;
}

void Vocabulary::Rehash(size_t slots) {
  slots_.assign(slots, 0);
  hashes_.assign(slots, 0);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const std::string_view token = TextOf(entries_[i]);
    const size_t hash = HashOf(token);
    const size_t slot = SlotFor(token, hash);
    slots_[slot] = static_cast<std::uint32_t>(i + 1);
    hashes_[slot] = static_cast<std::uint32_t>(hash >> 32);
  }
}

std::optional<TokenId> Vocabulary::Find(std::string_view token) const {
  if (slots_.empty()) return std::nullopt;
  const std::uint32_t entry = slots_[SlotFor(token, HashOf(token))];
  if (entry == 0) return std::nullopt;
  return entries_[entry - 1].id;
}

bool Vocabulary::Has(TokenId id) const {
  return id >= 0 && static_cast<size_t>(id) < spans_.size() && spans_[static_cast<size_t>(id)] != 0;
}

std::string_view Vocabulary::Text(TokenId id) const {
  return Has(id) ? TextOf(entries_[spans_[static_cast<size_t>(id)] - 1]) : std::string_view();
}

}  // namespace banyan
