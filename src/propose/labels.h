// Labels that documents write beside their values: "Colour: moss green", "Total ..... 60 EUR",
// headers of tables. A label of several documents is a name for an attribute.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/span.h"

namespace banyan {

struct FoundLabel {
  std::string name;   // as written, without surrounding marks: "Invoice no."
  std::string value;  // one line; the items of a list or the cells of a column with "; " between
  TextSpan place;     // of the value in the document, in characters
};

inline constexpr size_t kMostLabels = 1000;  // of one document

// - "Label: value" and "Label = value" at the beginning of a line or of a column, after bullets
//   and Markdown marks; several of them in a line with , ; / | · or wide space between.
// - "Label:" and its value, or a list of values with bullets, in the lines below.
// - "Label   value" and "Label ..... value": a line of two columns.
// - Headers of Markdown tables, and of tables with wide space between three columns or more.
// A label has at most five words and 40 bytes, begins with a letter, has no number as a word and is
// no salutation. Reads any bytes in linear time; stops after kMostLabels.
std::vector<FoundLabel> FindLabels(std::string_view document);

// Equal for spellings of one label: case, accents, plurals and brackets make no difference,
// "no." and "nr" are "number".
std::string LabelKey(std::string_view label);

bool HasDigit(std::string_view text);

}  // namespace banyan
