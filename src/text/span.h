// Where an answer stands in its document.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace banyan {

// In characters (code points) from the document's start; `end` is after the last one.
struct TextSpan {
  std::int64_t start = 0, end = 0;
};

// The first place where `words` stand in `document` as they are: not inside a longer word or
// number, with any space where they have space. Nothing when there is none. Both are valid UTF-8.
std::optional<TextSpan> FindSpan(std::string_view document, std::string_view words);

}  // namespace banyan
