// Names that a person mistyped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace banyan {

// The known name that was probably meant by the word, which may be an abbreviation of it or begin
// with it; empty: none.
std::string NearestName(std::string_view word, const std::vector<std::string>& known);

// The known name that differs from the word by a slip of the pen alone: a letter changed, added,
// left out, or swapped with its neighbour, two in a long word. Empty: none, or the word is known.
std::string MistypedName(std::string_view word, const std::vector<std::string>& known);

}  // namespace banyan
