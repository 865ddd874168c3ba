#include "constrain/mask_cache.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/tokenizer/tokenizer.h"
#include "text/unicode.h"

namespace banyan {
namespace {

constexpr size_t kMostBytes = 512;    // of forced text that are considered
constexpr size_t kTokensToCheck = 5;  // at its end, for longer tokens

// The only byte that may follow; nullopt when there are several or the text may end.
std::optional<std::uint8_t> OnlyByte(const Dfa& dfa, Dfa::State state) {
  if (dfa.accepting(state)) return std::nullopt;
  std::optional<std::uint8_t> only;
  for (int b = 0; b < 256; ++b) {
    const auto byte = static_cast<std::uint8_t>(b);
    if (dfa.Next(state, byte) == Dfa::kDead) continue;
    if (only) return std::nullopt;
    only = byte;
  }
  return only;
}

// The tokenizer's tokens for `text` inside a longer text. Bytes of an incomplete character (a
// forced text may begin or end inside one) are spelled by the longest tokens.
std::vector<TokenId> Spell(const TokenTrie& trie, std::string_view text) {
  std::vector<TokenId> tokens;
  while (!text.empty()) {
    size_t valid = 0;
    while (valid < text.size()) {
      const Utf8Character character = ReadUtf8(text, valid);
      if (!character.valid) break;
      valid += character.length;
    }
    if (valid > 0) {
      const Tokenizer::Piece piece{text.substr(0, valid), /*plain=*/true};
      const std::vector<TokenId> written = trie.tokenizer()->EncodeRest({&piece, 1});
      tokens.insert(tokens.end(), written.begin(), written.end());
      text.remove_prefix(valid);
      continue;
    }
    size_t invalid = 1;
    while (invalid < text.size() && !ReadUtf8(text, invalid).valid) ++invalid;
    for (std::string_view rest = text.substr(0, invalid); !rest.empty();) {
      const std::optional<TokenId> longest = trie.LongestPrefix(rest);
      if (!longest) return tokens;
      tokens.push_back(*longest);
      rest.remove_prefix(trie.Bytes(*longest).size());
    }
    text.remove_prefix(invalid);
  }
  return tokens;
}

// The first token of the text that must follow `state`; nullopt when no text must, without a
// tokenizer, or when a token that extends beyond the forced text might spell it differently.
std::optional<TokenId> ForcedToken(const TokenTrie& trie, const Dfa& dfa, Dfa::State state) {
  if (trie.tokenizer() == nullptr) return std::nullopt;
  std::string forced;
  while (forced.size() < kMostBytes) {
    const std::optional<std::uint8_t> byte = OnlyByte(dfa, state);
    if (!byte) break;
    forced += static_cast<char>(*byte);
    state = dfa.Next(state, *byte);
  }
  if (forced.empty()) return std::nullopt;
  const std::vector<TokenId> tokens = Spell(trie, forced);
  // The last tokens are uncertain: a longer token may begin with their bytes.
  size_t certain = tokens.size();
  std::string end;
  for (size_t i = 0; i < std::min(tokens.size(), kTokensToCheck); ++i) {
    end.insert(0, trie.Bytes(tokens[tokens.size() - 1 - i]));
    if (trie.GoesOn(end, dfa, state)) certain = tokens.size() - 1 - i;
  }
  if (certain == 0) return std::nullopt;
  // A normaliser may have changed the forced text.
  const std::string_view first = trie.Bytes(tokens[0]);
  if (first.empty() || !forced.starts_with(first)) return std::nullopt;
  return tokens[0];
}

constexpr size_t kBytesOfEntry = 64;  // of a state, besides its mask

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
  // Unlocked: two threads may compute the same mask, but none waits for another.
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
