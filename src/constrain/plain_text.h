// Plain characters: all from the space to U+FFFF but the quote and the backslash (not every
// vocabulary can spell what comes after). What most tokens are
// made of and most constraints on free text allow, so that a mask need not look at every token.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "constrain/dfa.h"

namespace banyan {

// How many characters `bytes` has; nullopt unless it is well-formed and plain throughout.
std::optional<size_t> PlainLength(std::string_view bytes);

// The largest n up to `most` such that after every plain text of at most n characters, read from
// `state` on, something can still follow or the text may end: then every such text is allowed.
int AllowedPlainLength(const Dfa& dfa, Dfa::State state, int most);

}  // namespace banyan
