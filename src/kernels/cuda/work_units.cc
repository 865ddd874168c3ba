#include "kernels/cuda/work_units.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace banyan::cuda {
namespace {

// Narrow units of so many pages on average are long: memory's bandwidth limits them.
constexpr int kPagesOfLongUnit = 8;
// What one multiprocessor takes, measured on an H200.
constexpr float kMicrosecondsPerCut = 2.2f, kMicrosecondsPerPage = 0.15f;

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

}  // namespace

WorkerDivision DivisionOf(int multiprocessors) {
  return {multiprocessors, kMicrosecondsPerCut, kMicrosecondsPerPage, kPagesOfLongUnit};
}

HostUnits UnitsOf(std::span<const WorkUnit> items, std::span<const std::int32_t> positions,
                  const UnitSplit& split, int multiprocessors) {
  HostUnits units;
  StepLoad load;  // windows left aside
  for (WorkUnit unit : items) {
    const std::int32_t packed_rows = (unit.row_end - unit.row_begin) * split.ratio;
    const bool narrow = split.form == UnitForm::kWideAndNarrow && packed_rows <= kMostNarrowRows &&
                        unit.key_end - unit.key_begin <= kGroupKeys;
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
      if (narrow) {
        ++load.few_items;
        load.few_pages += (keys + kPageTokens - 1) / kPageTokens;
      } else {
        load.many_cuts += (keys + kCutKeys - 1) / kCutKeys;
        load.many_groups += (unit.key_end - unit.key_begin + kGroupKeys - 1) / kGroupKeys;
      }
    }
  }
  if (split.form == UnitForm::kWideAndNarrow) OrderByKeys(units.many_rows);
  units.counts.wide = static_cast<std::int32_t>(units.many_rows.size());
  units.counts.narrow = static_cast<std::int32_t>(units.few_rows.size());
  if (units.counts.wide > 0) {
    units.counts.wide_blocks =
        multiprocessors - DivisionOf(multiprocessors).SetApart(load, split.kv_heads);
  }
  return units;
}

}  // namespace banyan::cuda
