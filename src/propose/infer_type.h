// The type of an attribute, from values that documents have for it.
#pragma once

#include <span>
#include <string>

#include "program/json_library.h"
#include "propose/lexicon.h"

namespace banyan {

// The members of the attribute in a schema (docs/extract.md): {"type": "number", "unit": "kg"}.
// Four of five values must be of the type:
// - boolean: yes, no, included … in at most three words;
// - date: a day that exists;
// - number, integer: a number with only its unit around it. Numbers of one dimension have
//   the most frequent unit, amounts of several currencies are texts with one of `units`. Expected
//   codes and words are never numbers;
// - enum: six values or more, five different ones at most, each in two documents or more and
//   three times on average;
// - list: half of the values have several items, one of them three or more;
// - text: all else.
nlohmann::ordered_json InferType(std::span<const std::string> values, Expected expected);

// For messages: "number in kg", "list of text".
std::string TypeWords(const nlohmann::ordered_json& type);

}  // namespace banyan
