// Against slow references: the trie as a set of beginnings, and every order that there is.
#include "tasks/table/column_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tasks/table/greedy_order.h"

namespace banyan {
namespace {

using Beginning = std::vector<std::pair<int, int>>;  // columns and their values

// The tokens of all different beginnings of prompts.
std::int64_t SlowTokens(const CellTable& cells, const std::vector<ColumnOrder>& of_rows) {
  std::map<Beginning, std::int64_t> trie;
  for (size_t row = 0; row < cells.rows(); ++row) {
    Beginning beginning;
    for (const std::uint16_t column : of_rows[row]) {
      beginning.emplace_back(column, cells.value(row, column));
      trie[beginning] = cells.tokens_of(row, column);
    }
  }
  std::int64_t sum = 0;
  for (const auto& [beginning, tokens] : trie) sum += tokens;
  return sum;
}

std::vector<ColumnOrder> OrdersOf(const OrderedTable& order) {
  std::vector<ColumnOrder> of_rows;
  for (const std::uint32_t number : order.order_of) of_rows.push_back(order.orders[number]);
  return of_rows;
}

std::vector<ColumnOrder> AllOrders(size_t columns) {
  ColumnOrder order(columns);
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  std::vector<ColumnOrder> orders;
  do orders.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  return orders;
}

std::int64_t BestFixed(const CellTable& cells) {
  std::int64_t best = -1;
  for (const ColumnOrder& order : AllOrders(cells.columns)) {
    const std::int64_t cost = SlowTokens(cells, std::vector<ColumnOrder>(cells.rows(), order));
    if (best < 0 || cost < best) best = cost;
  }
  return best;
}

// Every row in every order.
std::int64_t BestOfAll(const CellTable& cells) {
  const std::vector<ColumnOrder> orders = AllOrders(cells.columns);
  std::vector<size_t> chosen(cells.rows(), 0);
  std::int64_t best = -1;
  while (true) {
    std::vector<ColumnOrder> of_rows;
    for (const size_t number : chosen) of_rows.push_back(orders[number]);
    const std::int64_t cost = SlowTokens(cells, of_rows);
    if (best < 0 || cost < best) best = cost;
    size_t row = 0;
    while (row < chosen.size() && ++chosen[row] == orders.size()) chosen[row++] = 0;
    if (row == chosen.size()) return best;
  }
}

CellTable RandomTable(std::mt19937& random, size_t rows, size_t columns, int values) {
  CellTable cells(columns);
  for (size_t column = 0; column < columns; ++column) {
    for (int value = 0; value < values; ++value) {
      cells.tokens[column].push_back(static_cast<std::int32_t>(1 + random() % 30));
    }
  }
  for (size_t i = 0; i < rows * columns; ++i) {
    // Small numbers are frequent.
    const auto limit = 1 + random() % static_cast<unsigned>(values);
    cells.values.push_back(static_cast<std::int32_t>(random() % limit));
  }
  return cells;
}

bool IsAPermutation(const OrderedTable& order, size_t rows) {
  const std::set<std::uint32_t> all(order.rows.begin(), order.rows.end());
  return order.rows.size() == rows && all.size() == rows &&
         (rows == 0 || *all.rbegin() == rows - 1);
}

TEST(ColumnOrder, CountsTokensAsTheTrieOfAllPromptsHasThem) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const CellTable cells = RandomTable(random, 1 + random() % 12, 1 + random() % 4, 4);
    for (const OrderedTable& order :
         {GivenOrder(cells), OrderedRows(cells), OrderBySharing(cells)}) {
      EXPECT_TRUE(IsAPermutation(order, cells.rows()));
      EXPECT_EQ(TokensShared(cells, order), SlowTokens(cells, OrdersOf(order)));
    }
  }
}

TEST(ColumnOrder, IsAtLeastAsGoodAsTheBestFixedOrder) {
  std::mt19937 random(2);
  int better = 0;
  for (int round = 0; round < 200; ++round) {
    const CellTable cells = RandomTable(random, 2 + random() % 20, 1 + random() % 4, 5);
    const std::int64_t found = TokensShared(cells, OrderBySharing(cells)), fixed = BestFixed(cells);
    EXPECT_LE(found, fixed);
    EXPECT_GE(found, TokensBound(cells));
    better += found < fixed ? 1 : 0;
  }
  EXPECT_GT(better, 20);  // orders of their own for some rows
}

// The greedy choice is not always the best one; how far it is from it is bounded here.
TEST(ColumnOrder, IsNearTheBestOfAllOrdersOfAllRows) {
  std::mt19937 random(3);
  std::int64_t found = 0, best = 0, given = 0;
  for (int round = 0; round < 60; ++round) {
    const CellTable cells = RandomTable(random, 4, 3, 3);
    const std::int64_t best_here = BestOfAll(cells);
    EXPECT_LE(TokensBound(cells), best_here);
    EXPECT_GE(TokensShared(cells, OrderBySharing(cells)), best_here);
    best += best_here;
    found += TokensShared(cells, OrderBySharing(cells));
    given += TokensShared(cells, OrderedRows(cells));
  }
  EXPECT_LE(static_cast<double>(found - best), 0.15 * static_cast<double>(given - best))
      << found << " found, " << best << " the best, " << given << " as given";
}

// GGR as it is published, without its early stop: for every value, the squares of its tokens and of
// those that it determines, once for every row but the first.
class SlowGreedy {
 public:
  explicit SlowGreedy(const CellTable& cells) : cells_(cells), of_rows_(cells.rows()) {
    ColumnOrder columns(cells.columns);
    std::iota(columns.begin(), columns.end(), std::uint16_t{0});
    std::vector<std::uint32_t> rows(cells.rows());
    std::iota(rows.begin(), rows.end(), 0U);
    for (const std::uint16_t a : columns) {
      for (const std::uint16_t b : columns) {
        std::set<std::pair<int, int>> pairs;
        std::set<int> values;
        for (const std::uint32_t row : rows) {
          pairs.emplace(cells.value(row, a), cells.value(row, b));
          values.insert(cells.value(row, a));
        }
        if (a != b && pairs.size() == values.size()) determined_[a].push_back(b);
      }
    }
    Solve(rows, columns, {});
  }
  const std::vector<ColumnOrder>& orders() const { return of_rows_; }

 private:
  void Solve(const std::vector<std::uint32_t>& rows, const ColumnOrder& free, ColumnOrder before) {
    double best = 0.0;
    std::uint16_t column = 0;
    int value = 0;
    for (const std::uint16_t one : free) {
      std::map<int, std::vector<std::uint32_t>> by_value;
      for (const std::uint32_t row : rows) by_value[cells_.value(row, one)].push_back(row);
      for (const auto& [found, of] : by_value) {
        double squares = std::pow(cells_.tokens_of(of.front(), one), 2);
        for (const std::uint16_t other : determined_[one]) {
          if (std::ranges::find(free, other) == free.end()) continue;
          squares += std::pow(cells_.tokens_of(of.front(), other), 2);
        }
        const double hits = squares * static_cast<double>(of.size() - 1);
        if (hits <= best) continue;
        best = hits;
        column = one;
        value = found;
      }
    }
    if (best == 0.0) {
      before.insert(before.end(), free.begin(), free.end());
      for (const std::uint32_t row : rows) of_rows_[row] = before;
      return;
    }
    std::vector<std::uint32_t> with, without;
    for (const std::uint32_t row : rows) {
      (cells_.value(row, column) == value ? with : without).push_back(row);
    }
    if (!without.empty()) Solve(without, free, before);
    ColumnOrder rest = free;
    std::erase(rest, column);
    before.push_back(column);
    for (const std::uint16_t other : determined_[column]) {
      if (std::erase(rest, other) > 0) before.push_back(other);
    }
    Solve(with, rest, before);
  }

  const CellTable& cells_;
  std::map<std::uint16_t, ColumnOrder> determined_;
  std::vector<ColumnOrder> of_rows_;
};

TEST(ColumnOrder, NeverNeedsMoreTokensThanThePublishedGreedyOrder) {
  std::mt19937 random(5);
  int better = 0;
  for (int round = 0; round < 200; ++round) {
    const size_t columns = 1 + random() % 12;
    CellTable cells =
        RandomTable(random, 2 + random() % 40, columns, 2 + static_cast<int>(random() % 9));
    for (size_t row = 0; row < cells.rows() && columns > 2; ++row) {
      cells.values[row * columns + 1] = cells.value(row, 0) / 2;  // determined by the first
    }
    const std::int64_t published = SlowTokens(cells, SlowGreedy(cells).orders());
    EXPECT_EQ(SlowTokens(cells, OrdersOf(GreedyOrder(cells, columns, GreedyGain::kSquares))),
              published);
    const std::int64_t found = TokensShared(cells, OrderBySharing(cells));
    EXPECT_LE(found, published);
    better += found < published ? 1 : 0;
  }
  EXPECT_GT(better, 50);
}

TEST(ColumnOrder, GreedyOrdersLeaveTheLastColumnsInTheirPlaces) {
  std::mt19937 random(6);
  const CellTable cells = RandomTable(random, 40, 6, 4);
  for (const ColumnOrder& order : GreedyOrder(cells, 4, GreedyGain::kTokens).orders) {
    EXPECT_EQ(order[4], 4);
    EXPECT_EQ(order[5], 5);
    ColumnOrder sorted = order;
    std::ranges::sort(sorted);
    EXPECT_EQ(sorted, (ColumnOrder{0, 1, 2, 3, 4, 5}));
  }
}

TEST(ColumnOrder, RowsThatBeginAlikeStandTogether) {
  CellTable cells(2);
  cells.tokens = {{5, 5}, {3, 3, 3}};
  cells.values = {0, 0, 1, 1, 0, 2, 1, 0, 0, 0};
  EXPECT_EQ(OrderedRows(cells).rows, (std::vector<std::uint32_t>{0, 4, 2, 3, 1}));
  EXPECT_EQ(GivenOrder(cells).rows, (std::vector<std::uint32_t>{0, 4, 1, 2, 3}));
}

TEST(ColumnOrder, ALongTextThatRepeatsComesFirst) {
  CellTable cells(3);  // a number that never repeats, a short word, a long text
  cells.tokens = {{2, 2, 2, 2}, {1, 1}, {400, 300}};
  cells.values = {0, 0, 0, 1, 1, 1, 2, 0, 0, 3, 0, 1};
  const OrderedTable order = OrderBySharing(cells);
  ASSERT_EQ(order.orders.size(), 1U);
  EXPECT_EQ(order.orders.front(), (ColumnOrder{2, 1, 0}));
  EXPECT_EQ(TokensAlone(cells), 4 * 3 + 700 * 2);
  EXPECT_EQ(TokensShared(cells, order), 700 + 3 + 8);
}

TEST(ColumnOrder, RowsOfAFrequentValueGetAnOrderOfTheirOwn) {
  // The first half repeats a long text in one column, the second half in the other.
  CellTable cells(2);
  for (std::int32_t i = 0; i < 20; ++i) {
    cells.values.push_back(i < 10 ? 0 : i);
    cells.values.push_back(i < 10 ? i : 10);
    cells.tokens[0].push_back(100);
    cells.tokens[1].push_back(100);
  }
  const OrderedTable order = OrderBySharing(cells);
  EXPECT_EQ(order.orders.size(), 2U);
  EXPECT_EQ(TokensShared(cells, order), 2 * 1100);
  EXPECT_GT(BestFixed(cells), 3000);
}

TEST(ColumnOrder, ManyColumnsAndNoRows) {
  std::mt19937 random(4);
  const CellTable many = RandomTable(random, 300, 14, 6);
  const OrderedTable order = OrderBySharing(many);
  EXPECT_LE(TokensShared(many, order), TokensShared(many, OrderedRows(many)));
  for (const ColumnOrder& one : order.orders) {
    ColumnOrder sorted = one;
    std::ranges::sort(sorted);
    EXPECT_EQ(sorted, OrderedRows(many).orders.front());
  }
  const CellTable none(3);
  EXPECT_TRUE(OrderBySharing(none).rows.empty());
  EXPECT_EQ(TokensShared(none, GivenOrder(none)), 0);
  EXPECT_EQ(TokensBound(none), 0);
}

}  // namespace
}  // namespace banyan
