#include "tasks/table/greedy_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

namespace banyan {
namespace {

using Rows = std::vector<std::uint32_t>;

// The rows of one part of the table, by the values of its columns that repeat any.
class ValueLists {
 public:
  struct Value {
    std::uint16_t column = 0;
    std::int32_t value = 0;
    std::uint32_t begin = 0, end = 0;  // in the column's list
    std::uint32_t count = 0;           // of its rows, those that are not taken
  };

  ValueLists(const CellTable& cells, const Rows& rows, const ColumnOrder& columns) {
    for (const std::uint16_t column : columns) {
      List list{Rows(rows.size()), Rows(rows.size())};
      std::iota(list.places.begin(), list.places.end(), 0U);
      std::ranges::stable_sort(
          list.places, {}, [&](std::uint32_t place) { return cells.value(rows[place], column); });
      const size_t before = values_.size();
      for (std::uint32_t i = 0; i < rows.size(); ++i) {
        const std::int32_t value = cells.value(rows[list.places[i]], column);
        if (i == 0 || values_.back().value != value) values_.push_back({column, value, i, i, 0});
        ++values_.back().end;
        ++values_.back().count;
        list.value_of[list.places[i]] = static_cast<std::uint32_t>(values_.size() - 1);
      }
      if (values_.size() - before == rows.size()) {
        values_.resize(before);  // nothing repeats
      } else {
        lists_.emplace(column, std::move(list));
      }
    }
  }

  const std::vector<Value>& values() const { return values_; }
  // Places in the part's rows of all rows with the value, taken ones too.
  template <typename Hear>
  void ForEachPlace(const Value& value, const Hear& hear) const {
    const List& list = lists_.at(value.column);
    for (std::uint32_t i = value.begin; i < value.end; ++i) hear(list.places[i]);
  }
  void Take(std::uint32_t place) {
    for (const auto& [column, list] : lists_) --values_[list.value_of[place]].count;
  }

 private:
  struct List {
    Rows places;    // [rows], by value
    Rows value_of;  // [rows]: numbers in values_
  };
  std::vector<Value> values_;
  std::map<std::uint16_t, List> lists_;
};

class Greedy {
 public:
  Greedy(const CellTable& cells, size_t movable, GreedyGain gain)
      : cells_(cells), gain_(gain), follow_(cells.columns) {
    order_.order_of.resize(cells.rows());
    order_.rows.resize(cells.rows());
    std::iota(order_.rows.begin(), order_.rows.end(), 0U);
    ColumnOrder columns(movable);
    std::iota(columns.begin(), columns.end(), std::uint16_t{0});
    FindDetermined(columns);
    Solve(order_.rows, columns, {});
  }

  OrderedTable Take() { return std::move(order_); }

 private:
  using Value = ValueLists::Value;
  // What a value saved when it was looked at, its column and itself: the first of equal ones wins.
  using Looked = std::tuple<double, int, std::int32_t, size_t>;

  // Which columns have one value for every value of another.
  void FindDetermined(const ColumnOrder& columns) {
    const ValueLists lists(cells_, order_.rows, columns);
    for (const Value& value : lists.values()) {
      if (value.begin == 0) follow_[value.column] = columns;
      std::erase_if(follow_[value.column], [&](std::uint16_t other) {
        std::int32_t found = -1;
        bool differs = other == value.column;
        if (differs) return true;
        lists.ForEachPlace(value, [&](std::uint32_t row) {
          differs = differs || (found >= 0 && cells_.value(row, other) != found);
          found = cells_.value(row, other);
        });
        return differs;
      });
    }
  }

  double OfTokens(std::uint32_t row, std::uint16_t column) const {
    const auto tokens = static_cast<double>(cells_.tokens_of(row, column));
    return gain_ == GreedyGain::kSquares ? tokens * tokens : tokens;
  }

  Looked Look(const Value& value, size_t number, double of_row) const {
    return {of_row * (value.count - 1.0), -static_cast<int>(value.column), -value.value, number};
  }

  // `before`: columns that stand first in the prompts of these rows, and are equal.
  void Solve(const Rows& rows, const ColumnOrder& free, const ColumnOrder& before) {
    if (rows.size() < 2 || free.size() < 2) return Finish(rows, free, before);
    ValueLists lists(cells_, rows, free);
    const std::vector<Value>& values = lists.values();
    std::vector<double> of_row(values.size(), 0.0);
    std::priority_queue<Looked> queue;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].count < 2) continue;
      std::uint32_t first = 0;
      lists.ForEachPlace(values[i], [&](std::uint32_t place) { first = rows[place]; });
      of_row[i] = OfTokens(first, values[i].column);
      for (const std::uint16_t other : follow_[values[i].column]) {
        if (std::ranges::find(free, other) != free.end()) of_row[i] += OfTokens(first, other);
      }
      queue.push(Look(values[i], i, of_row[i]));
    }
    std::vector<bool> taken(rows.size(), false);
    while (!queue.empty()) {
      const Looked top = queue.top();
      queue.pop();
      const size_t number = std::get<size_t>(top);
      const Value value = values[number];
      if (value.count < 2) continue;
      const Looked now = Look(value, number, of_row[number]);
      if (now < top) {  // some of its rows were taken since
        queue.push(now);
        continue;
      }
      if (std::get<double>(top) <= 0.0) break;
      Rows places, with;
      lists.ForEachPlace(value, [&](std::uint32_t place) {
        if (!taken[place]) places.push_back(place);
      });
      for (const std::uint32_t place : places) {
        taken[place] = true;
        lists.Take(place);
        with.push_back(rows[place]);
      }
      Descend(with, free, before, value.column);
    }
    Rows rest;
    for (std::uint32_t place = 0; place < rows.size(); ++place) {
      if (!taken[place]) rest.push_back(rows[place]);
    }
    Finish(rest, free, before);
  }

  // Nothing repeats: the other columns stand as given.
  void Finish(const Rows& rows, const ColumnOrder& free, const ColumnOrder& before) {
    if (rows.empty()) return;
    ColumnOrder whole = before;
    whole.insert(whole.end(), free.begin(), free.end());
    for (size_t i = whole.size(); i < cells_.columns; ++i) {
      whole.push_back(static_cast<std::uint16_t>(i));
    }
    const auto [at, is_new] =
        numbers_.try_emplace(whole, static_cast<std::uint32_t>(numbers_.size()));
    if (is_new) order_.orders.push_back(whole);
    for (const std::uint32_t row : rows) order_.order_of[row] = at->second;
  }

  void Descend(const Rows& rows, ColumnOrder free, ColumnOrder before, std::uint16_t column) {
    const auto move = [&](std::uint16_t one) {
      if (std::erase(free, one) > 0) before.push_back(one);
    };
    move(column);
    for (const std::uint16_t other : follow_[column]) move(other);
    Solve(rows, free, before);
  }

  const CellTable& cells_;
  const GreedyGain gain_;
  std::vector<ColumnOrder> follow_;  // [columns]: those that a column determines
  std::map<ColumnOrder, std::uint32_t> numbers_;
  OrderedTable order_;
};

}  // namespace

OrderedTable GreedyOrder(const CellTable& cells, size_t movable, GreedyGain gain) {
  return Greedy(cells, movable, gain).Take();
}

}  // namespace banyan
