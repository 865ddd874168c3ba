#include "kernels/units/work_units.h"

#include <algorithm>
#include <bit>
#include <span>
#include <tuple>

namespace banyan {
namespace {

// So that keys come from memory once and then from the cache.
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

std::vector<WorkUnit> WholeItems(const AttentionPlan& plan) {
  std::vector<WorkUnit> units;
  units.reserve(plan.items.size());
  for (const WorkItem& item : plan.items) {
    const KvSpan& span = plan.spans[static_cast<std::size_t>(item.span)];
    units.push_back({.row_begin = item.row_begin,
                     .row_end = item.row_end,
                     .reader_begin = item.reader_begin,
                     .reader_end = item.reader_end,
                     .key_begin = item.key_begin,
                     .key_end = item.key_end,
                     .first_partial = item.first_partial,
                     .first_page = span.first_page,
                     .first_position = span.first_position});
  }
  return units;
}

HostUnits UnitsOf(std::span<const WorkUnit> items, std::span<const std::int32_t> positions,
                  const UnitSplit& split, int wide_blocks) {
  HostUnits units;
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
    }
  }
  if (split.form == UnitForm::kWideAndNarrow) OrderByKeys(units.many_rows);
  units.counts.wide = static_cast<std::int32_t>(units.many_rows.size());
  units.counts.narrow = static_cast<std::int32_t>(units.few_rows.size());
  units.counts.wide_blocks = units.counts.wide > 0 ? wide_blocks : 0;
  return units;
}

namespace {

// The end of the part of a list that begins at `begin`: the next entry that opens at least as much.
std::size_t EndOfPart(std::span<const MergeEntry> list, std::size_t begin, Opening level) {
  std::size_t end = begin + 1;
  while (end < list.size() && list[end].opens < level) ++end;
  return end;
}

// `steps` are those of [begin, end) of the list, a chunk or group that is not its first.
void GiveOwnPartial(std::span<MergeStep> steps) {
  if (steps.size() < 2) return;
  steps.front().opens = 1;
  ++steps.back().closes;
}

void AddSteps(std::span<const MergeEntry> list, std::span<MergeStep> steps) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    steps[i].partial = list[i].partial;
    steps[i].scales_context = list[i].opens == Opening::kRest ? 1 : 0;
  }
  for (std::size_t chunk = 0; chunk < list.size();) {
    const std::size_t chunk_end = EndOfPart(list, chunk, Opening::kChunk);
    if (chunk > 0) GiveOwnPartial(steps.subspan(chunk, chunk_end - chunk));
    const auto groups = list.first(chunk_end);
    for (std::size_t group = chunk; group < chunk_end;) {
      const std::size_t group_end = EndOfPart(groups, group, Opening::kGroup);
      if (group > chunk) GiveOwnPartial(steps.subspan(group, group_end - group));
      group = group_end;
    }
    chunk = chunk_end;
  }
}

}  // namespace

std::vector<MergeStep> MergeStepsOf(const AttentionPlan& plan) {
  std::vector<MergeStep> steps(plan.merges.size());
  for (std::size_t row = 0; row + 1 < plan.merge_begin.size(); ++row) {
    const auto begin = static_cast<std::size_t>(plan.merge_begin[row]);
    const std::size_t count = static_cast<std::size_t>(plan.merge_begin[row + 1]) - begin;
    AddSteps(std::span(plan.merges).subspan(begin, count), std::span(steps).subspan(begin, count));
  }
  return steps;
}

}  // namespace banyan
