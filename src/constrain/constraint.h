// What is behind banyan::Constraint.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "banyan/constrain.h"
#include "constrain/automaton.h"
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

// Copies that follow a separator.

// As Constraint::FromCopies, with the text `before` in front of every answer: what separates an
// answer from a prompt that has no chat template. Models write it in one token with the first word.
// Without a token for one of its bytes it is left out.
std::shared_ptr<const Constraint> CopiesAfter(std::string_view before, std::string_view text,
                                              std::span<const std::string> others,
                                              std::shared_ptr<const TokenTrie> trie,
                                              ConstraintOptions options);

// Matches the spans of the source and each of `others`, all of them behind the text `before`.
// Throws kLimit for a text that is too long, or repeats itself too much.
Dfa CopyAutomaton(std::string_view text, std::span<const std::string> others,
                  const std::bitset<256>& without, const DfaLimits& limits = {},
                  std::string_view before = {});

}  // namespace banyan
