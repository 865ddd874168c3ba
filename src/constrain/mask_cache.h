// Token masks by state of an automaton, computed on first use. Where only one text can follow, the
// mask holds the token that the tokenizer itself would produce: of the many splits of the same
// bytes, the one that a model knows. Thread-safe.
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
