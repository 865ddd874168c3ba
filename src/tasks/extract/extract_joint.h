// Where a template's piece ends and its value begins, in tokens. A model that writes the text
// itself cuts it where its tokenizer does: `"brand": "Sony"` is often `"brand":` and ` "` …, never
// a space alone. So the piece ends at the last place that is a boundary between tokens whatever
// value comes, and what is left of its text is the beginning of the value.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/text.h"

namespace banyan {

struct Joint {
  std::vector<TokenId> tokens;  // of the piece; empty: no boundary was found
  std::string rest;             // the end of its text, which is written with the value
};

// `values`: beginnings that values may have, each of them some characters long.
Joint FindJoint(const Text& text, std::string_view piece, std::span<const std::string> values);

}  // namespace banyan
