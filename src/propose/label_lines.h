// Lines, cells and pairs of a document, as ranges of its bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace banyan {

struct ByteRange {
  size_t begin = 0, end = 0;
};

struct LabelledRange {
  ByteRange label, value;  // the value may be empty
};

// Without the space around them; empty lines too.
std::vector<ByteRange> LinesOf(std::string_view document);

// A line's columns: between them a tab, two spaces or more, a vertical bar or three dots or more.
// None is empty.
std::vector<ByteRange> CellsOf(std::string_view document, ByteRange line);

// The pairs of label and value in a cell.
std::vector<LabelledRange> PairsOf(std::string_view document, ByteRange cell);

// What stands behind a bullet or "1."; nothing when the line has none.
std::optional<ByteRange> ItemOf(std::string_view document, ByteRange line);

// A line of a Markdown table below its header: |---|:--|
bool IsTableRule(std::string_view line);

bool IsLabel(std::string_view text);
bool HasDigit(std::string_view text);

// labels.cc: "Dear", "Please" and their like are no labels.
bool BeginsASentence(std::string_view first_word);

}  // namespace banyan
