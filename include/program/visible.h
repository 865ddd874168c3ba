// Text from outside for a person's screen: a terminal obeys control characters, and files, rows and
// templates may hold any.
#pragma once

#include <string>
#include <string_view>

namespace banyan {

// Control characters (but tab and line end) as \u001b, bytes that are no UTF-8 as \xff.
std::string Visible(std::string_view text);

}  // namespace banyan
