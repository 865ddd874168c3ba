// In which order the columns of a table stand in its prompts, and in which order its rows are
// computed, so that prompts begin alike as far as they can. Integer work only: which value a cell
// has, and how many tokens.
//
// What is minimised is the size of the trie of all prompts, in tokens: what has to be computed when
// every beginning that prompts have in common is computed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace banyan {

// Cells by number. Cells of a column with the same number are the same text.
struct CellTable {
  explicit CellTable(size_t columns = 0) : columns(columns), tokens(columns) {}

  size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
  std::int32_t value(size_t row, size_t column) const { return values[row * columns + column]; }
  std::int64_t tokens_of(size_t row, size_t column) const {
    return tokens[column][static_cast<size_t>(value(row, column))];
  }

  size_t columns = 0;
  std::vector<std::int32_t> values;               // [rows, columns], from 0 in each column
  std::vector<std::vector<std::int32_t>> tokens;  // [columns][values]
};

using ColumnOrder = std::vector<std::uint16_t>;

struct OrderedTable {
  std::vector<ColumnOrder> orders;      // each of all columns
  std::vector<std::uint32_t> order_of;  // [rows]: which of `orders` the row's prompt has
  std::vector<std::uint32_t> rows;      // as they are computed: equal beginnings stand together
};

// Columns and rows as they are given; only rows with the same cells stand together, at the first.
OrderedTable GivenOrder(const CellTable& cells);
// Columns as they are given, rows so that equal beginnings stand together.
OrderedTable OrderedRows(const CellTable& cells);
// Columns and rows by sharing. One order for the whole table is the best that there is for up to
// kMostSearched columns that repeat values; where it takes fewer tokens, rows that have a frequent
// value, or every value that repeats, get an order of their own that begins with it.
// The first `movable` columns change their places, the others follow them.
OrderedTable OrderBySharing(const CellTable& cells, size_t movable);
inline OrderedTable OrderBySharing(const CellTable& cells) {
  return OrderBySharing(cells, cells.columns);
}
inline constexpr size_t kMostSearched = 9;

// Tokens of the cells of all rows: as if every prompt were computed alone; as this order shares
// them; and so many that no order needs fewer.
std::int64_t TokensAlone(const CellTable& cells);
std::int64_t TokensShared(const CellTable& cells, const OrderedTable& order);
std::int64_t TokensBound(const CellTable& cells);

}  // namespace banyan
