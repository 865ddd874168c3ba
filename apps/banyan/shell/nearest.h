// Which of the known words was meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace banyan::app {

// The known word that needs the fewest letters changed, added, left out or swapped to become
// `word`, or that begins as it does; empty when none is near.
std::string Nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace banyan::app
