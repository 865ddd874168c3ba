#include "kernels/cuda/work_units.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

namespace banyan::cuda {
namespace {

// Packed rows that narrow units of 8 still read well; more go to a wide unit.
constexpr std::int32_t kMostNarrowRows = 2 * kNarrowRows;
// Narrow units of so many pages on average are long: memory's bandwidth limits them.
constexpr std::int64_t kPagesOfLongUnit = 8;
// What one multiprocessor takes, measured on an H200.
constexpr float kMicrosecondsPerCut = 2.2f, kMicrosecondsPerPage = 0.15f;

// Of all units for one KV head, windows left aside.
struct Work {
  std::int64_t wide_cuts = 0, narrow_pages = 0;
};

// Long units first, as before, but among those of about one length the readers of the same keys
// together, so that keys come from memory once and then from the cache.
void OrderByKeys(std::vector<WorkUnit>& units) {
  const auto order = [](const WorkUnit& unit) {
    const auto rows = static_cast<std::uint32_t>(unit.row_end - unit.row_begin);
    const auto keys = static_cast<std::uint32_t>(unit.key_end - unit.key_begin);
    const int length = std::bit_width(rows) + std::bit_width(keys);
    return std::tuple(-length, unit.first_page, unit.key_begin, unit.row_begin);
  };
  std::stable_sort(units.begin(), units.end(),
                   [&](const WorkUnit& a, const WorkUnit& b) { return order(a) < order(b); });
}

// How many blocks take wide units. Where there are rounds of these and the narrow ones are long,
// some multiprocessors are left for narrow ones from the start, so that both end together: the ones
// wait for the matrix units, the others for memory. Short narrow units do not wait for memory's
// bandwidth, and gain nothing from more of it.
int WideBlocks(const UnitCounts& counts, const Work& work, int kv_heads, int multiprocessors) {
  if (counts.wide == 0) return 0;
  const bool rounds = std::int64_t{counts.wide} * kv_heads >= 2 * multiprocessors;
  if (counts.narrow == 0 || !rounds || work.narrow_pages < kPagesOfLongUnit * counts.narrow) {
    return multiprocessors;
  }
  const float wide = kMicrosecondsPerCut * static_cast<float>(work.wide_cuts);
  const float narrow = kMicrosecondsPerPage * static_cast<float>(work.narrow_pages);
  const float share = narrow / (narrow + wide) * static_cast<float>(multiprocessors);
  return multiprocessors -
         std::clamp(static_cast<int>(std::lround(share)), 1, std::max(1, multiprocessors / 2));
}

}  // namespace

HostUnits UnitsOf(std::span<const WorkUnit> items, std::span<const std::int32_t> positions,
                  const UnitSplit& split, int multiprocessors) {
  HostUnits units;
  Work work;
  for (WorkUnit unit : items) {
    const std::int32_t packed_rows = (unit.row_end - unit.row_begin) * split.ratio;
    const bool narrow = split.form == UnitForm::kWideAndNarrow && packed_rows <= kMostNarrowRows;
    const std::int32_t size = split.form == UnitForm::kBlocks ? kBlockRows
                              : narrow                        ? kNarrowRows
                                                              : kWideRows;
    for (std::int32_t first = 0; first < packed_rows; first += size) {
      const std::int32_t last = std::min(first + size, packed_rows) - 1;
      unit.first_packed_row = first;
      const auto [low, high] =
          std::minmax_element(positions.begin() + unit.row_begin + first / split.ratio,
                              positions.begin() + unit.row_begin + last / split.ratio + 1);
      unit.lowest_offset = *low - unit.first_position;
      unit.highest_offset = *high - unit.first_position;
      (narrow ? units.few_rows : units.many_rows).push_back(unit);
      const std::int32_t keys =
          std::max(std::min(unit.key_end, unit.highest_offset + 1) - unit.key_begin, 0);
      (narrow ? work.narrow_pages : work.wide_cuts) +=
          narrow ? (keys + kPageTokens - 1) / kPageTokens : (keys + kCutKeys - 1) / kCutKeys;
    }
  }
  if (split.form == UnitForm::kWideAndNarrow) OrderByKeys(units.many_rows);
  units.counts.wide = static_cast<std::int32_t>(units.many_rows.size());
  units.counts.narrow = static_cast<std::int32_t>(units.few_rows.size());
  units.counts.wide_blocks = WideBlocks(units.counts, work, split.kv_heads, multiprocessors);
  return units;
}

}  // namespace banyan::cuda
