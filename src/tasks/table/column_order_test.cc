// Against slow references: the trie as a set of beginnings, and every order that there is.
#include "tasks/table/column_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

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
