// The implementation of banyan::Constraint: an automaton, the tokens and their masks; and
// constraints that copy spans of a text.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "banyan/constrain.h"
#include "constrain/automaton.h"
#include "constrain/token_masks.h"

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
  mutable MaskCache masks;  // thread-safe
};

// As Constraint::FromCopies, with the separator `before` in front of every answer, for prompts
// without a chat template: models write it in one token with the first word. Omitted when one of
// its bytes has no token.
std::shared_ptr<const Constraint> CopiesAfter(std::string_view before, std::string_view text,
                                              std::span<const std::string> others,
                                              std::shared_ptr<const TokenTrie> trie,
                                              ConstraintOptions options);

// Matches `before` followed by a span of `text`, or by several with "; " between them if they are
// `joined`, or by one of `others`. Throws kLimit for a text
// that is too long or too repetitive.
Dfa CopyAutomaton(std::string_view text, std::span<const std::string> others,
                  const std::bitset<256>& without, const DfaLimits& limits = {},
                  std::string_view before = {}, bool joined = false);

}  // namespace banyan
