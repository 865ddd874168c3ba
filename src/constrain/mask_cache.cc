#include "constrain/mask_cache.h"

#include <utility>

#include "base/error.h"
#include "constrain/forced_token.h"

namespace banyan {
namespace {

constexpr size_t kBytesOfEntry = 64;  // what a state costs beside its mask

std::uint64_t HashOf(const MaskWords& mask) {
  std::uint64_t hash = 0;
  for (const std::uint32_t word : mask) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

MaskCache::MaskCache(const Dfa& dfa, const TokenTrie& trie, ConstraintOptions options)
    : dfa_(dfa), trie_(trie), options_(std::move(options)) {
  for (const TokenId token : options_.end_tokens) {
    if (token < 0 || static_cast<size_t>(token) >= trie.vocab_size()) {
      Throw(ErrorKind::kInput, "constraint: end token {} is outside the vocabulary of {} tokens",
            token, trie.vocab_size());
    }
  }
}

std::shared_ptr<const MaskWords> MaskCache::Get(Dfa::State state) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_state_.find(state);
    if (found != by_state_.end()) return found->second;
  }
  // Unlocked: two threads may compute the same mask, none waits for another's.
  return Keep(state, Compute(state));
}

MaskWords MaskCache::Compute(Dfa::State state) const {
  MaskWords mask;
  const auto allow = [&mask](TokenId token) {
    const auto bit = static_cast<unsigned>(token);
    mask[bit / 32] |= std::uint32_t{1} << (bit % 32);
  };
  if (options_.canonical) {
    if (const std::optional<TokenId> forced = ForcedToken(trie_, dfa_, state)) {
      mask.assign(trie_.words(), 0);
      allow(*forced);
      return mask;
    }
  }
  mask = trie_.Allowed(dfa_, state);
  if (dfa_.accepting(state)) {
    for (const TokenId token : options_.end_tokens) allow(token);
  }
  return mask;
}

std::shared_ptr<const MaskWords> MaskCache::Keep(Dfa::State state, MaskWords mask) {
  const std::uint64_t hash = HashOf(mask);
  const std::lock_guard lock(mutex_);
  ++computed_;
  const size_t used =
      by_hash_.size() * mask.size() * sizeof(std::uint32_t) + by_state_.size() * kBytesOfEntry;
  if (used > options_.mask_bytes) {
    by_state_.clear();
    by_hash_.clear();
  }
  auto [begin, end] = by_hash_.equal_range(hash);
  for (; begin != end; ++begin) {
    if (*begin->second == mask) return by_state_[state] = begin->second;
  }
  auto made = std::make_shared<const MaskWords>(std::move(mask));
  by_hash_.emplace(hash, made);
  return by_state_[state] = std::move(made);
}

MaskCache::Counts MaskCache::counts() {
  const std::lock_guard lock(mutex_);
  return {by_state_.size(), by_hash_.size(), computed_};
}

}  // namespace banyan
