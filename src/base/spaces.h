// White space of ASCII: what surrounds words and makes a line blank.
#pragma once

#include <string_view>

namespace banyan {

inline constexpr std::string_view kSpaces = " \t\r\n\v\f";

inline bool IsBlank(std::string_view text) {
  return text.find_first_not_of(kSpaces) == std::string_view::npos;
}

// Without space at either end; a view of `text`.
inline std::string_view Trimmed(std::string_view text) {
  if (IsBlank(text)) return {};
  const size_t first = text.find_first_not_of(kSpaces);
  return text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

}  // namespace banyan
