// Words of a text, as a search for words compares them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace banyan {

// Runs of letters, marks, digits and underscores, in lower case. Ideographs stand alone.
std::vector<std::string> WordsOf(std::string_view text);

}  // namespace banyan
