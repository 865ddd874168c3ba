// Splits a mention of several things into its items.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace banyan {

// The items of a list, trimmed, in order; none is empty. Nothing is split within round or square
// brackets.
// - Lines, bullets and numbers at their beginnings, ';' and '|' separate. If the text has one of
//   them, nothing else does.
// - Otherwise commas, except decimal commas and separators of thousands (1,5 and 1,234), before
//   Inc., Ltd., GmbH and their like, and in "May 31, 2024"; also '/' and '+' between spaces, '/'
//   between two words of three letters or more, "·" and "•".
// - "and", "or", "und", "oder", "et", "ou", "&" before the last item of such a list; in a text
//   without commas the words separate too, '&' does not (Smith & Sons).
[[nodiscard]] std::vector<std::string> SplitList(std::string_view raw);

}  // namespace banyan
