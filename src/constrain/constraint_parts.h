// What is behind banyan::Constraint.
#pragma once

#include <memory>
#include <utility>

#include "banyan/constrain.h"
#include "constrain/dfa.h"
#include "constrain/mask_cache.h"
#include "constrain/token_trie.h"

namespace banyan {

struct Constraint::Parts {
  Parts(Dfa automaton, std::shared_ptr<const TokenTrie> tokens, ConstraintOptions options)
      : dfa(std::move(automaton)),
        trie(std::move(tokens)),
        end_when_complete(options.end_when_complete),
        masks(dfa, *trie, std::move(options)) {}

  Dfa dfa;
  std::shared_ptr<const TokenTrie> trie;
  const bool end_when_complete;
  mutable MaskCache masks;  // guards itself
};

}  // namespace banyan
