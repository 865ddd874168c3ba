// What the model wrote → a value of the attribute's type. The rules for numbers, units, dates and
// the like are those of src/values; here a value is chosen, checked against its schema and found in
// the document.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/constrain.h"
#include "banyan/extract.h"
#include "program/json_library.h"
#include "text/span.h"
#include "values/convert.h"

namespace banyan {

struct TypedValue {
  nlohmann::ordered_json value;
  std::string unit;    // of a number that was written with one
  std::string reason;  // why the value is null though something was written, or why items are gone
  std::vector<size_t> kept = {};  // of a list: which of the written items each item is
};

// What the document tells about the way it writes dates and numbers.
struct DocumentHints {
  bool month_first = false;  // 03/04/2024 is the fourth of March
  int year = 0;              // of all its dates that have one; 0: of none, or of several years
  DecimalMark decimal_mark = DecimalMark::kUnknown;  // 1.480 is a thousand or less than two
};
DocumentHints HintsOf(std::string_view document);

// `written`: null, a text, true or false, or a list of these. `fits`: what the value's JSON must
// match; null: anything.
TypedValue ConvertWritten(const ExtractAttribute& attribute, const nlohmann::ordered_json& written,
                          const Constraint* fits, const DocumentHints& hints);

// The words of the text that stand for a number or a date; nothing when there are none.
std::optional<std::string> FindMention(const ExtractAttribute& attribute,
                                       const nlohmann::ordered_json& value, std::string_view text);

// The texts of at most six words of the document that have a value of a number's or date's
// attribute, in the order of their first places: at most `most` of them. Numbers with a unit alone,
// where the attribute has one and the document such numbers.
std::vector<std::string> MentionsOf(const ExtractAttribute& attribute, std::string_view document,
                                    const Constraint* fits, size_t most);

// Where a written text stands in the document: exactly, else ignoring case. A list has a place for
// every item.
std::vector<std::optional<TextSpan>> PlacesOf(const nlohmann::ordered_json& written,
                                              std::string_view document);

}  // namespace banyan
