// Plain texts and the trie, forced tokens, then the cache.
#include "constrain/token_masks.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "banyan/constrain.h"
#include "base/error.h"
#include "constrain/expression.h"
#include "text/text.h"
#include "text/tokenizer/tokenizer.h"
#include "text/unicode.h"

namespace banyan {

namespace {

// Plain characters: from the space to U+FFFF, without the quote and the backslash. Most tokens
// consist of them and most constraints on free text allow them, so a mask need not visit every
// token. (Not every vocabulary can spell characters above U+FFFF.)

constexpr char32_t kLastPlain = 0xFFFF;

bool IsPlain(char32_t code) {
  return code >= ' ' && code <= kLastPlain && code != '"' && code != '\\';
}

const std::vector<Utf8Sequence>& PlainSequences() {
  static const std::vector<Utf8Sequence> sequences =
      Utf8Sequences(CharacterSet({{' ', '!'}, {'#', '['}, {']', kLastPlain}}));
  return sequences;
}

// Appends the states after each text of `sequence`, from its byte `at`. False when one is dead.
bool AppendAfter(const Dfa& dfa, Dfa::State state, const Utf8Sequence& sequence, int at,
                 std::vector<Dfa::State>& out) {
  if (at == sequence.length) {
    if (out.empty() || out.back() != state) out.push_back(state);
    return true;
  }
  const ByteRange bytes = sequence.bytes[static_cast<size_t>(at)];
  Dfa::State before = Dfa::kDead;  // equal targets are adjacent: each is followed once
  for (int byte = bytes.low; byte <= bytes.high; ++byte) {
    const Dfa::State next = dfa.Next(state, static_cast<std::uint8_t>(byte));
    if (next == Dfa::kDead) return false;
    if (next == before) continue;
    before = next;
    if (!AppendAfter(dfa, next, sequence, at + 1, out)) return false;
  }
  return true;
}

// How many characters `bytes` has; nullopt unless it is well-formed and plain throughout.
std::optional<size_t> PlainLength(std::string_view bytes) {
  size_t characters = 0;
  for (size_t at = 0; at < bytes.size(); ++characters) {
    const Utf8Character character = ReadUtf8(bytes, at);
    if (!character.valid || !IsPlain(character.code)) return std::nullopt;
    at += character.length;
  }
  return characters;
}

// The largest n up to `most` such that no plain text of at most n characters, read from `state`,
// reaches the dead state: then every such text is allowed.
int AllowedPlainLength(const Dfa& dfa, Dfa::State state, int most) {
  constexpr size_t kMostStates = 8;  // with more, walking the trie is as fast
  std::vector<Dfa::State> now = {state}, after;
  for (int length = 0; length < most; ++length) {
    after.clear();
    for (const Dfa::State from : now) {
      for (const Utf8Sequence& sequence : PlainSequences()) {
        if (!AppendAfter(dfa, from, sequence, 0, after)) return length;
      }
    }
    std::ranges::sort(after);
    after.erase(std::ranges::unique(after).begin(), after.end());
    if (after == now) return most;
    if (after.size() > kMostStates) return length + 1;
    std::swap(now, after);
  }
  return most;
}

void SetBit(MaskWords& mask, TokenId token) {
  mask[static_cast<size_t>(token) / 32] |= std::uint32_t{1} << (static_cast<unsigned>(token) % 32);
}

std::vector<std::string> BytesOfTokens(const Tokenizer& tokenizer) {
  std::vector<std::string> bytes(tokenizer.vocab_size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    if (!tokenizer.IsSpecial(token) && !tokenizer.IsAdded(token)) {
      bytes[i] = tokenizer.TokenBytes(token);
    }
  }
  return bytes;
}

}  // namespace

TokenTrie::TokenTrie(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)), bytes_(BytesOfTokens(*tokenizer_)) {
  Build();
}

TokenTrie::TokenTrie(std::vector<std::string> bytes) : bytes_(std::move(bytes)) { Build(); }

std::string_view TokenTrie::Bytes(TokenId token) const {
  if (token < 0 || static_cast<size_t>(token) >= bytes_.size()) return {};
  return bytes_[static_cast<size_t>(token)];
}

void TokenTrie::Build() {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    if (bytes_[i].size() > 65535) bytes_[i].clear();  // no tokenizer file has such a token
    if (!bytes_[i].empty()) tokens_.push_back(static_cast<TokenId>(i));
  }
  std::ranges::stable_sort(tokens_, [this](TokenId a, TokenId b) { return Bytes(a) < Bytes(b); });
  plain_.assign(kLongestPlain + 1, MaskWords(words(), 0));

  std::vector<size_t> open;  // nodes from the root's child down to the last token's
  std::string_view before;
  const auto close = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back()) {
      Node& node = nodes_[open.back()];
      node.skip = static_cast<std::uint32_t>(nodes_.size());
      if (open.size() > 1) {
        Node& parent = nodes_[open[open.size() - 2]];
        parent.plain_below = std::max(parent.plain_below, node.plain_below);
      }
    }
  };
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view bytes = Bytes(tokens_[i]);
    const auto shared =
        static_cast<size_t>(std::ranges::mismatch(bytes, before).in1 - bytes.begin());
    close(shared);
    for (size_t at = shared; at < bytes.size(); ++at) {
      open.push_back(nodes_.size());
      // Inner nodes of a longer token have no tokens of their own: an empty range.
      nodes_.push_back({0, static_cast<std::uint32_t>(i), static_cast<std::uint16_t>(at + 1),
                        static_cast<std::uint8_t>(bytes[at]), 0});
    }
    before = bytes;
    deepest_ = std::max(deepest_, bytes.size());
    const size_t plain = PlainLength(bytes).value_or(kNotPlain);
    Node& node = nodes_[open.back()];
    node.plain_below = std::max(
        node.plain_below, plain > kLongestPlain ? kNotPlain : static_cast<std::uint8_t>(plain));
    if (plain <= kLongestPlain) SetBit(plain_[plain], tokens_[i]);
  }
  close(0);
  nodes_.push_back({static_cast<std::uint32_t>(nodes_.size()),
                    static_cast<std::uint32_t>(tokens_.size()), 0, 0, 0});
  for (size_t n = 1; n < plain_.size(); ++n) {
    for (size_t w = 0; w < words(); ++w) plain_[n][w] |= plain_[n - 1][w];
  }
}

std::optional<TokenId> TokenTrie::LongestPrefix(std::string_view bytes) const {
  const auto by_bytes = [this](TokenId token) { return Bytes(token); };
  for (size_t length = std::min(bytes.size(), deepest_); length > 0; --length) {
    const std::string_view wanted = bytes.substr(0, length);
    const auto found = std::ranges::lower_bound(tokens_, wanted, {}, by_bytes);
    if (found != tokens_.end() && Bytes(*found) == wanted) return *found;
  }
  return std::nullopt;
}

bool TokenTrie::GoesOn(std::string_view bytes, const Dfa& dfa, Dfa::State state) const {
  const auto by_bytes = [this](TokenId token) { return Bytes(token); };
  auto token = std::ranges::upper_bound(tokens_, bytes, {}, by_bytes);
  for (; token != tokens_.end() && Bytes(*token).starts_with(bytes); ++token) {
    if (dfa.Next(state, Bytes(*token).substr(bytes.size())) != Dfa::kDead) return true;
  }
  return false;
}

MaskWords TokenTrie::Allowed(const Dfa& dfa, Dfa::State state) const {
  const int plain = AllowedPlainLength(dfa, state, kLongestPlain);
  MaskWords mask = plain_[static_cast<size_t>(plain)];
  std::vector<Dfa::State> states(deepest_ + 1);
  states[0] = state;
  const size_t end = nodes_.size() - 1;
  for (size_t i = 0; i < end;) {
    const Node& node = nodes_[i];
    if (node.plain_below <= plain) {  // all in the mask already
      i = node.skip;
      continue;
    }
    const Dfa::State next = dfa.Next(states[node.depth - size_t{1}], node.byte);
    if (next == Dfa::kDead) {
      i = node.skip;
      continue;
    }
    states[node.depth] = next;
    for (std::uint32_t t = node.first_token; t < nodes_[i + 1].first_token; ++t) {
      SetBit(mask, tokens_[t]);
    }
    ++i;
  }
  return mask;
}

std::shared_ptr<const TokenTrie> MakeTokenTrie(const Text& text) {
  const Text::Parts& parts = text.parts();
  std::call_once(parts.trie_made,
                 [&] { parts.trie = std::make_shared<const TokenTrie>(parts.tokenizer); });
  return parts.trie;
}

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
