// Where only one text can follow, the tokens that the tokenizer itself would write for it: a model
// then reads its own spelling, not one of the many that the same bytes have.
#pragma once

#include <optional>

#include "banyan/types.h"
#include "constrain/dfa.h"
#include "constrain/token_trie.h"

namespace banyan {

// The first token of the text that must follow `state`; nullopt when none must, when a tokenizer is
// not known, or when tokens that go on beyond the forced text might spell it otherwise.
std::optional<TokenId> ForcedToken(const TokenTrie& trie, const Dfa& dfa, Dfa::State state);

}  // namespace banyan
