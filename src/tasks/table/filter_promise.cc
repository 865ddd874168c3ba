#include "tasks/table/filter_promise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace banyan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The probability of at least `successes` of `trials` at this chance of each.
double AtLeast(std::int64_t successes, std::int64_t trials, double chance) {
  if (successes <= 0) return 1.0;
  if (chance <= 0.0) return 0.0;
  if (chance >= 1.0) return 1.0;
  const auto n = static_cast<double>(trials);
  double sum = 0.0;
  for (std::int64_t k = successes; k <= trials; ++k) {
    const auto i = static_cast<double>(k);
    sum += std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0) +
                    i * std::log(chance) + (n - i) * std::log1p(-chance));
  }
  return std::min(1.0, sum);
}

// Thresholds in between the different probabilities of a part of the sample, from low to high.
std::vector<double> Thresholds(std::span<const JudgedRow> rows) {
  std::vector<double> values;
  for (const JudgedRow& row : rows) values.push_back(row.small);
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
  return values;
}

bool IsKept(const JudgedRow& row, double low, double high) {
  return row.small >= high || (row.small >= low && row.large);
}

// Of the true rows those that are kept.
CountedShare RecallOf(std::span<const JudgedRow> rows, double low, double risk) {
  CountedShare share;
  for (const JudgedRow& row : rows) {
    share.whole += row.label ? 1 : 0;
    share.part += row.label && IsKept(row, low, kNever) ? 1 : 0;
  }
  share.bound = LowerBound(share.part, share.whole, risk);
  return share;
}

// Of the kept rows those that are true.
CountedShare PrecisionOf(std::span<const JudgedRow> rows, double low, double high, double risk) {
  CountedShare share;
  for (const JudgedRow& row : rows) {
    const bool kept = IsKept(row, low, high);
    share.whole += kept ? 1 : 0;
    share.part += kept && row.label ? 1 : 0;
  }
  share.bound = LowerBound(share.part, share.whole, risk);
  return share;
}

// Rows that all have to be right for a bound of `wanted`.
std::int64_t FewestRows(double wanted, double risk) {
  return wanted >= 1.0 ? 0
                       : static_cast<std::int64_t>(std::ceil(std::log(risk) / std::log(wanted)));
}

std::string ProblemOfShare(const char* name, const char* rows, const CountedShare& share,
                           double wanted, double risk) {
  const std::int64_t fewest = FewestRows(wanted, risk);
  if (wanted >= 1.0) return fmt::format("a {} of 1 cannot be promised from a sample", name);
  if (share.whole < fewest) {
    return fmt::format(
        "a {} of {} needs a sample of which each half has {} rows that are {}, found {}; draw a "
        "larger one, or promise less",
        name, wanted, fewest, rows, share.whole);
  }
  return fmt::format(
      "the large model by itself has a {} of {} in {} on the sample, {:.3f} at least; {} cannot be "
      "promised",
      name, share.part, share.whole, share.bound, wanted);
}

}  // namespace

double LowerBound(std::int64_t successes, std::int64_t trials, double risk) {
  if (trials <= 0 || successes <= 0) return 0.0;
  double low = 0.0, high = 1.0;
  constexpr int kHalvings = 50;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2.0;
    (AtLeast(successes, trials, middle) > risk ? high : low) = middle;
  }
  return low;
}

FilterBand ChooseBand(std::span<const JudgedRow> sample, const FilterGoal& goal) {
  const std::span<const JudgedRow> first = sample.first(sample.size() / 2),
                                   second = sample.subspan(sample.size() / 2);
  const double risk = (1.0 - goal.confidence) / 2.0;
  FilterBand band;
  band.low = 0.0;
  band.high = kNever;
  if (goal.recall > 0.0) {
    band.recall = RecallOf(first, band.low, risk);
    if (band.recall.bound < goal.recall) {
      band.problem = ProblemOfShare("recall", "true", band.recall, goal.recall, risk);
      return band;
    }
    for (const double low : Thresholds(first)) {
      const CountedShare recall = RecallOf(first, low, risk);
      if (recall.bound < goal.recall) break;
      band.low = low;
      band.recall = recall;
    }
  }
  if (goal.precision > 0.0) {
    band.precision = PrecisionOf(second, band.low, band.high, risk);
    if (band.precision.bound < goal.precision) {
      band.problem = ProblemOfShare("precision", "kept", band.precision, goal.precision, risk);
      return band;
    }
    std::vector<double> thresholds = Thresholds(second);
    for (size_t i = thresholds.size(); i-- > 0 && thresholds[i] >= band.low;) {
      const CountedShare precision = PrecisionOf(second, band.low, thresholds[i], risk);
      if (precision.bound < goal.precision) break;
      band.high = thresholds[i];
      band.precision = precision;
    }
  }
  return band;
}

BandVerdict VerdictOf(const FilterBand& band, double small) {
  if (small >= band.high) return BandVerdict::kKeep;
  return small < band.low ? BandVerdict::kDrop : BandVerdict::kAskLarge;
}

}  // namespace banyan
