// How a model says that a document does not have the answer, as the panel of experts sees it.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "banyan/text.h"
#include "banyan/types.h"

namespace banyan {

// The tokens that an answer which says nothing (SaysNothing) begins with, rising: `null` as the
// tokenizer writes it after a prompt, other spellings of it that are one token, and the ends of an
// answer without words. `separator` is what an answer begins with (PromptWriter).
std::vector<TokenId> NullTokens(const Text& text, std::string_view separator,
                                std::span<const TokenId> end_tokens);

}  // namespace banyan
