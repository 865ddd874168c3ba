// Sorting by comparisons that are asked in rounds, each of many at once: quicksort whose segments
// are all divided in the same round, by their middle items.
//
// n items take about n log2(n) comparisons in log2(n) rounds where the order to begin with divides
// them well. After twice so many rounds what is left keeps that order, so that no table takes more
// than 2 n log2(n).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace banyan {

class ComparisonRounds {
 public:
  struct Pair {
    std::uint32_t pivot = 0, other = 0;
  };

  // Items from 0, in the order to begin with. Only the first `top` places are needed; 0: all.
  ComparisonRounds(size_t items, size_t top);

  // What is to be compared now; empty: the items are in order.
  std::vector<Pair> Next() const;
  // Of each pair of Next(): above 0 where the other item stands before the pivot, below 0 where it
  // stands behind it, 0 where neither does. Such ones keep the order to begin with.
  void Take(std::span<const double> others_lead);

  const std::vector<std::uint32_t>& order() const { return order_; }

  struct Cost {
    std::int64_t comparisons = 0, rounds = 0;
    std::int64_t most_comparisons = 0;  // whatever they say
  };
  // Where the order to begin with is the right one.
  static Cost CostOf(size_t items, size_t top);

 private:
  struct Segment {
    size_t begin = 0, end = 0;
    size_t pivot() const { return begin + (end - begin) / 2; }
  };
  void Keep(Segment segment, std::vector<Segment>& segments) const;

  const size_t top_;
  size_t rounds_left_ = 0;
  std::vector<std::uint32_t> order_;
  std::vector<Segment> segments_;  // not in order yet
};

}  // namespace banyan
