// Where only one text can follow, the tokens that the tokenizer itself would write for it: a model
// then reads its own spelling, not one of the many that the same bytes have.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "banyan/constrain.h"
#include "banyan/types.h"
#include "constrain/automaton.h"
#include "constrain/token_trie.h"

namespace banyan {

// The first token of the text that must follow `state`; nullopt when none must, when a tokenizer is
// not known, or when tokens that go on beyond the forced text might spell it otherwise.
std::optional<TokenId> ForcedToken(const TokenTrie& trie, const Dfa& dfa, Dfa::State state);

// Masks by state of an automaton, computed when first asked for. Any number of threads may ask.

class MaskCache {
 public:
  // At most about mask_bytes of masks are kept; when they are full, all are forgotten and computed
  // again as they are needed.
  MaskCache(const Dfa& dfa, const TokenTrie& trie, ConstraintOptions options);

  // The tokens allowed in `state`, with the end tokens where the text may end.
  std::shared_ptr<const MaskWords> Get(Dfa::State state);

  struct Counts {
    size_t states = 0;    // that have a mask
    size_t masks = 0;     // different ones: states with equal masks share one
    size_t computed = 0;  // since the beginning
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
