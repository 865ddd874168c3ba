// One order for all rows: dynamic programming over sets of columns. What a column costs after a set
// of others depends on the set alone: its tokens, once for every combination of values of the set
// and itself. Orders of some rows: greedily, the value whose sharing saves most begins.
//
// And greedily for every value that repeats (greedy_order.h), which is better where a table has
// many columns. The plan with the fewest tokens is taken.
#include "tasks/table/column_order.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "tasks/table/greedy_order.h"

namespace banyan {
namespace {

using Rows = std::vector<std::uint32_t>;

// The best order is searched on so many of the rows at most, fewer where columns are many.
constexpr size_t kSampledRows = 20'000, kSampledWork = size_t{1} << 21;
constexpr int kMostSplits = 64;  // rows that are looked at for an order of their own
// A value is worth an order of its own where it saves one in so many of the rows' tokens.
constexpr std::int64_t kLeastShare = 50;
constexpr size_t kMostGreedyCells = size_t{1} << 26;  // of larger tables, no order for every value

// Numbers the combinations of values that rows have, column after column.
class Combinations {
 public:
  explicit Combinations(size_t rows) : of_(rows, 0), first_(rows > 0 ? 1 : 0, 0) {}

  // A further column. Each row's combination is numbered by first appearance.
  void Add(const CellTable& cells, const Rows& rows, size_t column) {
    std::unordered_map<std::uint64_t, std::uint32_t> numbers;
    numbers.reserve(first_.size() * 2);
    first_.clear();
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto value = static_cast<std::uint32_t>(cells.value(rows[i], column));
      const std::uint64_t pair = std::uint64_t{of_[i]} << 32 | value;
      const auto [at, is_new] =
          numbers.try_emplace(pair, static_cast<std::uint32_t>(first_.size()));
      if (is_new) first_.push_back(static_cast<std::uint32_t>(i));
      of_[i] = at->second;
    }
  }
  // Tokens of the column, once for each combination. REQUIRES: the column was added.
  std::int64_t Tokens(const CellTable& cells, const Rows& rows, size_t column) const {
    std::int64_t sum = 0;
    for (const std::uint32_t i : first_) sum += cells.tokens_of(rows[i], column);
    return sum;
  }
  const std::vector<std::uint32_t>& of() const { return of_; }  // [rows]
  const std::vector<std::uint32_t>& firsts() const { return first_; }

 private:
  std::vector<std::uint32_t> of_;     // [rows]
  std::vector<std::uint32_t> first_;  // [combinations]: the first row of each
};

Rows AllRows(const CellTable& cells) {
  Rows rows(cells.rows());
  std::iota(rows.begin(), rows.end(), 0U);
  return rows;
}

// Of these columns one after another, for these rows.
std::int64_t CostOf(const CellTable& cells, const Rows& rows, const ColumnOrder& order) {
  Combinations combinations(rows.size());
  std::int64_t cost = 0;
  for (const std::uint16_t column : order) {
    combinations.Add(cells, rows, column);
    cost += combinations.Tokens(cells, rows, column);
  }
  return cost;
}

std::int64_t SavedByColumn(const CellTable& cells, const Rows& rows, std::uint16_t column) {
  Combinations combinations(rows.size());
  combinations.Add(cells, rows, column);
  std::int64_t all = 0;
  for (const std::uint32_t row : rows) all += cells.tokens_of(row, column);
  return all - combinations.Tokens(cells, rows, column);
}

// The best order of a few columns.
ColumnOrder Searched(const CellTable& cells, const Rows& rows, const ColumnOrder& columns) {
  const size_t sets = size_t{1} << columns.size();
  std::vector<Combinations> combinations(sets, Combinations(rows.size()));
  std::vector<std::int64_t> best(sets, 0);   // tokens of the columns of a set, in the best order
  std::vector<std::uint16_t> last(sets, 0);  // which of them stands last there
  for (size_t set = 1; set < sets; ++set) {
    combinations[set] = combinations[set & (set - 1)];
    combinations[set].Add(cells, rows, columns[static_cast<size_t>(std::countr_zero(set))]);
    best[set] = std::numeric_limits<std::int64_t>::max();
    // From the back, so that of equal orders the given one is taken.
    for (size_t i = columns.size(); i-- > 0;) {
      if ((set >> i & 1) == 0) continue;
      const std::int64_t cost =
          best[set & ~(size_t{1} << i)] + combinations[set].Tokens(cells, rows, columns[i]);
      if (cost >= best[set]) continue;
      best[set] = cost;
      last[set] = static_cast<std::uint16_t>(i);
    }
  }
  ColumnOrder order;
  for (size_t set = sets - 1; set != 0; set &= ~(size_t{1} << last[set])) {
    order.push_back(columns[last[set]]);
  }
  std::ranges::reverse(order);
  return order;
}

// Of many columns, those that repeat most are searched; the others follow.
ColumnOrder BestOrder(const CellTable& cells, const Rows& rows, const ColumnOrder& columns) {
  Rows sample;
  const size_t searched = std::min(columns.size(), kMostSearched);
  const size_t most = std::min(kSampledRows, kSampledWork >> searched);
  const size_t step = (rows.size() + most - 1) / most;
  for (size_t i = 0; i < rows.size(); i += std::max<size_t>(1, step)) sample.push_back(rows[i]);
  if (columns.size() <= kMostSearched) return Searched(cells, sample, columns);
  std::vector<std::pair<std::int64_t, std::uint16_t>> saved;
  for (const std::uint16_t column : columns) {
    saved.emplace_back(-SavedByColumn(cells, sample, column), column);
  }
  std::ranges::stable_sort(saved, {}, &std::pair<std::int64_t, std::uint16_t>::first);
  ColumnOrder chosen, others;
  for (const auto& [minus, column] : saved) {
    (chosen.size() < kMostSearched ? chosen : others).push_back(column);
  }
  std::ranges::sort(chosen);
  ColumnOrder order = Searched(cells, sample, chosen);
  order.insert(order.end(), others.begin(), others.end());
  return order;
}

// Rows with one order of their columns.
struct Group {
  Rows rows;
  ColumnOrder order;
};
struct Grouping {
  std::vector<Group> groups;
  std::int64_t cost = 0;
};

struct FrequentValue {
  std::uint16_t column = 0;
  std::int32_t value = 0;
  std::int64_t saved = 0;
};

// The value whose tokens, once instead of once a row, save most.
FrequentValue MostSaving(const CellTable& cells, const Rows& rows, const ColumnOrder& columns) {
  FrequentValue most;
  for (const std::uint16_t column : columns) {
    std::unordered_map<std::int32_t, std::int64_t> counts;
    for (const std::uint32_t row : rows) ++counts[cells.value(row, column)];
    for (const auto& [value, count] : counts) {
      const std::int64_t saved = (count - 1) * cells.tokens[column][static_cast<size_t>(value)];
      const bool first = saved == most.saved && most.saved > 0 &&
                         (column < most.column || (column == most.column && value < most.value));
      if (saved > most.saved || first) most = {column, value, saved};
    }
  }
  return most;
}

class Grouper {
 public:
  explicit Grouper(const CellTable& cells) : cells_(cells) {}

  Grouping Solve(Rows rows, const ColumnOrder& columns) {
    Grouping whole;
    whole.groups.push_back({std::move(rows), {}});
    Group& all = whole.groups.front();
    all.order = BestOrder(cells_, all.rows, columns);
    whole.cost = CostOf(cells_, all.rows, all.order);
    if (columns.size() < 2 || all.rows.size() < 3) return whole;
    std::optional<Grouping> split = Split(all.rows, columns, whole.cost);
    return split && split->cost < whole.cost ? std::move(*split) : whole;
  }

 private:
  std::optional<Grouping> Split(const Rows& rows, const ColumnOrder& columns, std::int64_t cost) {
    const FrequentValue first = MostSaving(cells_, rows, columns);
    if (first.saved * kLeastShare < cost || splits_ >= kMostSplits) return std::nullopt;
    ++splits_;
    Rows with, without;
    for (const std::uint32_t row : rows) {
      (cells_.value(row, first.column) == first.value ? with : without).push_back(row);
    }
    if (without.empty()) return std::nullopt;  // one order begins so as well
    ColumnOrder rest = columns;
    std::erase(rest, first.column);
    Grouping split = Solve(std::move(with), rest);
    for (Group& group : split.groups) group.order.insert(group.order.begin(), first.column);
    split.cost += cells_.tokens[first.column][static_cast<size_t>(first.value)];
    Grouping others = Solve(std::move(without), columns);
    split.cost += others.cost;
    std::ranges::move(others.groups, std::back_inserter(split.groups));
    return split;
  }

  const CellTable& cells_;
  int splits_ = 0;
};

ColumnOrder GivenColumns(const CellTable& cells) {
  ColumnOrder order(cells.columns);
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  return order;
}

// How two prompts begin: columns and their values.
bool SameCell(const CellTable& cells, const OrderedTable& order, std::uint32_t a, std::uint32_t b,
              size_t place) {
  const std::uint16_t column = order.orders[order.order_of[a]][place];
  return column == order.orders[order.order_of[b]][place] &&
         cells.value(a, column) == cells.value(b, column);
}

void SortRows(const CellTable& cells, OrderedTable& order) {
  std::ranges::stable_sort(order.rows, [&](std::uint32_t a, std::uint32_t b) {
    const ColumnOrder& of_a = order.orders[order.order_of[a]];
    const ColumnOrder& of_b = order.orders[order.order_of[b]];
    for (size_t i = 0; i < cells.columns; ++i) {
      if (of_a[i] != of_b[i]) return of_a[i] < of_b[i];
      const std::int32_t left = cells.value(a, of_a[i]), right = cells.value(b, of_b[i]);
      if (left != right) return left < right;
    }
    return false;
  });
}

OrderedTable AsGiven(const CellTable& cells) {
  return {{GivenColumns(cells)}, std::vector<std::uint32_t>(cells.rows(), 0), AllRows(cells)};
}

}  // namespace

OrderedTable GivenOrder(const CellTable& cells) {
  OrderedTable order = AsGiven(cells);
  Combinations combinations(order.rows.size());
  for (size_t column = 0; column < cells.columns; ++column) {
    combinations.Add(cells, order.rows, column);
  }
  // Combinations are numbered by first appearance.
  std::ranges::stable_sort(order.rows, {},
                           [&](std::uint32_t row) { return combinations.of()[row]; });
  return order;
}

OrderedTable OrderedRows(const CellTable& cells) {
  OrderedTable order = AsGiven(cells);
  SortRows(cells, order);
  return order;
}

OrderedTable OrderBySharing(const CellTable& cells, size_t movable) {
  OrderedTable order = AsGiven(cells);
  if (cells.rows() == 0) return order;
  ColumnOrder given = order.orders.front();
  const ColumnOrder others(given.begin() + static_cast<std::ptrdiff_t>(movable), given.end());
  given.resize(movable);
  order.orders.clear();
  for (Group& group : Grouper(cells).Solve(order.rows, given).groups) {
    group.order.insert(group.order.end(), others.begin(), others.end());
    const auto known = std::ranges::find(order.orders, group.order);
    const auto number = static_cast<std::uint32_t>(known - order.orders.begin());
    if (known == order.orders.end()) order.orders.push_back(group.order);
    for (const std::uint32_t row : group.rows) order.order_of[row] = number;
  }
  if (cells.rows() * movable <= kMostGreedyCells) {
    std::int64_t fewest = TokensShared(cells, order);
    for (const GreedyGain gain : {GreedyGain::kTokens, GreedyGain::kSquares}) {
      OrderedTable greedy = GreedyOrder(cells, movable, gain);
      const std::int64_t tokens = TokensShared(cells, greedy);
      if (tokens >= fewest) continue;
      fewest = tokens;
      order = std::move(greedy);
    }
  }
  SortRows(cells, order);
  return order;
}

std::int64_t TokensAlone(const CellTable& cells) {
  std::int64_t sum = 0;
  for (size_t row = 0; row < cells.rows(); ++row) {
    for (size_t column = 0; column < cells.columns; ++column) sum += cells.tokens_of(row, column);
  }
  return sum;
}

std::int64_t TokensShared(const CellTable& cells, const OrderedTable& order) {
  OrderedTable sorted = order;
  SortRows(cells, sorted);
  std::int64_t sum = 0;
  for (size_t i = 0; i < sorted.rows.size(); ++i) {
    const std::uint32_t row = sorted.rows[i];
    size_t place = 0;
    while (i > 0 && place < cells.columns &&
           SameCell(cells, sorted, sorted.rows[i - 1], row, place)) {
      ++place;
    }
    for (; place < cells.columns; ++place) {
      sum += cells.tokens_of(row, sorted.orders[sorted.order_of[row]][place]);
    }
  }
  return sum;
}

// Every cell is computed once at least. And no two different rows share the end of their prompts,
// which is one of their cells at least.
std::int64_t TokensBound(const CellTable& cells) {
  const Rows rows = AllRows(cells);
  std::int64_t each_once = 0;
  Combinations whole(rows.size());
  for (size_t column = 0; column < cells.columns; ++column) {
    whole.Add(cells, rows, column);
    Combinations alone(rows.size());
    alone.Add(cells, rows, column);
    each_once += alone.Tokens(cells, rows, column);
  }
  std::int64_t ends = 0;
  for (const std::uint32_t row : whole.firsts()) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (size_t column = 0; column < cells.columns; ++column) {
      least = std::min(least, cells.tokens_of(row, column));
    }
    ends += cells.columns == 0 ? 0 : least;
  }
  return std::max(each_once, ends);
}

}  // namespace banyan
