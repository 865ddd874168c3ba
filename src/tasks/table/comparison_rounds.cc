#include "tasks/table/comparison_rounds.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.h"

namespace banyan {
namespace {

size_t MostRounds(size_t items) { return items < 2 ? 0 : 2 * std::bit_width(items - 1); }

}  // namespace

ComparisonRounds::ComparisonRounds(size_t items, size_t top)
    : top_(top == 0 ? items : std::min(top, items)),
      rounds_left_(MostRounds(items)),
      order_(items) {
  std::iota(order_.begin(), order_.end(), 0U);
  Keep({0, items}, segments_);
}

void ComparisonRounds::Keep(Segment segment, std::vector<Segment>& segments) const {
  if (segment.end - segment.begin > 1 && segment.begin < top_) segments.push_back(segment);
}

std::vector<ComparisonRounds::Pair> ComparisonRounds::Next() const {
  std::vector<Pair> pairs;
  if (rounds_left_ == 0) return pairs;
  for (const Segment& segment : segments_) {
    for (size_t i = segment.begin; i < segment.end; ++i) {
      if (i != segment.pivot()) pairs.push_back({order_[segment.pivot()], order_[i]});
    }
  }
  return pairs;
}

void ComparisonRounds::Take(std::span<const double> others_lead) {
  std::vector<Segment> segments;
  size_t next = 0;
  for (const Segment& segment : segments_) {
    std::vector<std::uint32_t> before, equal, behind;
    for (size_t i = segment.begin; i < segment.end; ++i) {
      const double lead = i == segment.pivot() ? 0.0 : others_lead[next++];
      (lead > 0.0 ? before : lead < 0.0 ? behind : equal).push_back(order_[i]);
    }
    auto place = order_.begin() + static_cast<std::ptrdiff_t>(segment.begin);
    for (const auto* part : {&before, &equal, &behind}) place = std::ranges::copy(*part, place).out;
    Keep({segment.begin, segment.begin + before.size()}, segments);
    Keep({segment.end - behind.size(), segment.end}, segments);
  }
  BANYAN_CHECK(next == others_lead.size());
  segments_ = std::move(segments);
  --rounds_left_;
}

ComparisonRounds::Cost ComparisonRounds::CostOf(size_t items, size_t top) {
  Cost cost;
  ComparisonRounds rounds(items, top);
  cost.most_comparisons =
      items < 2 ? 0 : static_cast<std::int64_t>((items - 1) * MostRounds(items));
  for (std::vector<Pair> pairs = rounds.Next(); !pairs.empty(); pairs = rounds.Next()) {
    std::vector<double> leads;
    for (const Pair& pair : pairs) leads.push_back(pair.other < pair.pivot ? 1.0 : -1.0);
    cost.comparisons += static_cast<std::int64_t>(pairs.size());
    ++cost.rounds;
    rounds.Take(leads);
  }
  return cost;
}

}  // namespace banyan
