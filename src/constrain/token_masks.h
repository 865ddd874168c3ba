// Which tokens does a state of an automaton allow? A trie of the vocabulary's bytes answers with
// one walk; a cache keeps the masks.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "banyan/constrain.h"
#include "banyan/types.h"
#include "constrain/automaton.h"

namespace banyan {

class Tokenizer;

using MaskWords = std::vector<std::uint32_t>;  // bit t of the words: token t

// The tokens of a vocabulary by the bytes that they stand for in running text, laid out for one
// walk with an automaton. Built once per tokenizer; immutable.
class TokenTrie {
 public:
  // Omits control tokens, other added tokens and ids without a token: no text allows them.
  explicit TokenTrie(std::shared_ptr<const Tokenizer> tokenizer);
  // bytes[t] are those of token t; a token without bytes is never allowed.
  explicit TokenTrie(std::vector<std::string> bytes);

  size_t vocab_size() const { return bytes_.size(); }
  size_t words() const { return (bytes_.size() + 31) / 32; }
  // Empty for a token that is never allowed, and for ids outside the vocabulary.
  std::string_view Bytes(TokenId token) const;

  // Null when the trie was built from bytes.
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  // The longest token that `bytes` begin with.
  std::optional<TokenId> LongestPrefix(std::string_view bytes) const;
  // Whether a token begins with `bytes` and continues with bytes that `state` allows.
  bool GoesOn(std::string_view bytes, const Dfa& dfa, Dfa::State state) const;

  // The tokens after which `state` of `dfa` is not dead.
  MaskWords Allowed(const Dfa& dfa, Dfa::State state) const;

 private:
  // Preorder: a node's children follow it; nodes_[skip] is the first node after its subtree.
  struct Node {
    std::uint32_t skip = 0;
    std::uint32_t first_token = 0;  // in tokens_; ends at that of the next node
    std::uint16_t depth = 0;        // bytes from the root
    std::uint8_t byte = 0;
    std::uint8_t plain_below =
        0;  // characters of the longest token in its subtree; kNotPlain: one is not plain
  };
  static constexpr std::uint8_t kNotPlain = 255;
  static constexpr int kLongestPlain = 32;  // characters

  void Build();

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> bytes_;
  std::vector<Node> nodes_;      // without the root; one more at the end
  std::vector<TokenId> tokens_;  // sorted by their bytes
  size_t deepest_ = 0;
  std::vector<MaskWords> plain_;  // [n]: plain tokens of at most n characters
};

// Token masks by state of an automaton, computed on first use. Where only one text can follow, the
// mask holds the token that the tokenizer itself would produce: of the many splits of the same
// bytes, the one that a model knows. Thread-safe.
class MaskCache {
 public:
  // Keeps about mask_bytes of masks. When the cache is full, it is cleared.
  MaskCache(const Dfa& dfa, const TokenTrie& trie, ConstraintOptions options);

  // The tokens allowed in `state`, with the end tokens where the text may end.
  std::shared_ptr<const MaskWords> Get(Dfa::State state);

  struct Counts {
    size_t states = 0;    // that have a mask
    size_t masks = 0;     // distinct: states with equal masks share one
    size_t computed = 0;  // since construction
  };
  Counts counts();

 private:
  MaskWords Compute(Dfa::State state) const;
  std::shared_ptr<const MaskWords> Keep(Dfa::State state, MaskWords mask);

  const Dfa& dfa_;
  const TokenTrie& trie_;
  const ConstraintOptions options_;
  std::mutex mutex_;
  std::unordered_map<Dfa::State, std::shared_ptr<const MaskWords>> by_state_;
  std::unordered_multimap<std::uint64_t, std::shared_ptr<const MaskWords>> by_hash_;
  size_t computed_ = 0;
};

}  // namespace banyan
