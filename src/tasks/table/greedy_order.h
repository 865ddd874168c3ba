// An order of columns of its own for every value that repeats, greedily: the algorithm GGR (Liu et
// al., Optimizing LLM Queries in Relational Data Analytics Workloads, 2025), without its early
// stop.
//
// The value whose tokens, once instead of once a row, save most begins the prompts of its rows, and
// the columns that it determines follow it. Then the same for its rows and their other columns, and
// for the rows without it.
#pragma once

#include <cstddef>

#include "tasks/table/column_order.h"

namespace banyan {

// What a value saves: its tokens, or, as published, their square, which takes long texts first.
enum class GreedyGain { kTokens, kSquares };

// The first `movable` columns change their places, the others follow them. Rows stand as given.
OrderedTable GreedyOrder(const CellTable& cells, size_t movable, GreedyGain gain);

}  // namespace banyan
