// Where words of an answer stand in a document, in characters.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "tasks/rag/rag_record.h"

namespace banyan {

// A stretch of a text, in bytes; it begins and ends between characters.
struct CitedBytes {
  size_t begin = 0, end = 0;
};

// The first place of `wanted` in `text`: as it is; else with runs of white space taken as one
// space; else in other case of ASCII letters too. Nothing: nowhere, or `wanted` is blank.
std::optional<CitedBytes> FindWords(std::string_view text, std::string_view wanted);

// {"document","text","begin","end",…}: the document's own words and where they stand. What stands
// nowhere is cited as it was written, without a place.
nlohmann::ordered_json CitationOf(const RagDocument& document, std::string_view written);

}  // namespace banyan
