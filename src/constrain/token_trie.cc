#include "constrain/token_trie.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "banyan/constrain.h"
#include "base/error.h"
#include "constrain/character_set.h"
#include "text/text.h"
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
  return std::make_shared<const TokenTrie>(text.parts().tokenizer);
}

}  // namespace banyan
