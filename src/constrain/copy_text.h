// Answers that are copied: the spans of a text as an automaton over bytes.
#pragma once

#include <bitset>
#include <span>
#include <string>
#include <string_view>

#include "constrain/dfa.h"

namespace banyan {

// Matches every span of `text` from where a word, a number or a sign begins to where one ends, and
// each of `others`. Runs of white space are one space; a number is not cut at its points, commas,
// colons and slashes. Characters with a byte of `without` are in no span. Throws kLimit for a text
// that is too long, or repeats itself too much.
Dfa CopyAutomaton(std::string_view text, std::span<const std::string> others,
                  const std::bitset<256>& without, const DfaLimits& limits = {});

}  // namespace banyan
