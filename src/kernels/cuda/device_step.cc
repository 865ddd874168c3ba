#include "kernels/cuda/device_step.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace banyan::cuda {
namespace {

// Packed rows that narrow units of 8 still read well; more go to a wide unit.
constexpr std::int32_t kMostNarrowRows = 2 * kNarrowRows;

struct HostUnits {
  std::vector<WorkUnit> many_rows, few_rows;
  std::int32_t counts[2] = {0, 0};
  std::int64_t many_cuts = 0, few_pages = 0;  // see UnitLists
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

// Splits items into units of the size that their kernel takes.
HostUnits UnitsOf(const std::vector<WorkUnit>& items, std::span<const std::int32_t> positions,
                  DeviceStep::Split split) {
  HostUnits units;
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
      (narrow ? units.few_pages : units.many_cuts) +=
          narrow ? (keys + kPageTokens - 1) / kPageTokens : (keys + kCutKeys - 1) / kCutKeys;
    }
  }
  if (split.form == UnitForm::kWideAndNarrow) OrderByKeys(units.many_rows);
  units.counts[0] = static_cast<std::int32_t>(units.many_rows.size());
  units.counts[1] = static_cast<std::int32_t>(units.few_rows.size());
  return units;
}

WorkUnit WholeItem(const WorkItem& item, const KvSpan& span) {
  WorkUnit unit;
  unit.row_begin = item.row_begin;
  unit.row_end = item.row_end;
  unit.reader_begin = item.reader_begin;
  unit.reader_end = item.reader_end;
  unit.key_begin = item.key_begin;
  unit.key_end = item.key_end;
  unit.first_partial = item.first_partial;
  unit.first_page = span.first_page;
  unit.first_position = span.first_position;
  return unit;
}

template <typename T>
StepMemory::Array ArrayOf(const std::vector<T>& values) {
  return {values.data(), values.size() * sizeof(T)};
}

// The arrays of a step in the order in which StepMemory gets them.
enum StepArray {
  kTokens,
  kPositions,
  kSlots,
  kLogitIndex,
  kMergeBegin,
  kCounts,
  kManyRows,
  kFewRows,
  kPages,
  kMerges,
  kCosine,
  kSine,
  kStepArrays
};

// `first`: the index of kCounts in `memory`; the others follow.
UnitLists ListsIn(const StepMemory& memory, size_t first, const HostUnits& units) {
  UnitLists lists;
  lists.many_count = units.counts[0];
  lists.few_count = units.counts[1];
  lists.many_cuts = units.many_cuts;
  lists.few_pages = units.few_pages;
  lists.counts = reinterpret_cast<const std::int32_t*>(memory.at(first));
  lists.many_rows = reinterpret_cast<const WorkUnit*>(memory.at(first + 1));
  lists.few_rows = reinterpret_cast<const WorkUnit*>(memory.at(first + 2));
  return lists;
}

}  // namespace

DeviceStep::Layout DeviceStep::layout() const {
  Layout layout = {memory_->version(), units_.many_rows, split_, units_.many_count > 0,
                   units_.few_count > 0};
  layout.short_lists = partials <= kLongestShortList * rows;
  layout.long_ends = units_.few_pages >= std::int64_t{kPagesOfLongUnit} * units_.few_count;
  if (layout.has_many && layout.has_few && layout.long_ends) {
    layout.balance = std::bit_width(static_cast<std::uint64_t>(units_.few_pages)) -
                     std::bit_width(static_cast<std::uint64_t>(units_.many_cuts));
  }
  return layout;
}

DeviceStep::~DeviceStep() {
  if (memory_) pool_->push_back(std::move(memory_));
}

std::unique_ptr<StepMemory> StepSender::MemoryForStep() {
  if (pool_->empty()) return std::make_unique<StepMemory>(device_);
  std::unique_ptr<StepMemory> memory = std::move(pool_->back());
  pool_->pop_back();
  return memory;
}

std::unique_ptr<DeviceStep> StepSender::Send(const Batch& batch, const AttentionPlan& plan,
                                             int pairs, DeviceStep::Split split) {
  auto step = std::make_unique<DeviceStep>();
  step->device_ = device_;
  step->pool_ = pool_;
  step->memory_ = MemoryForStep();
  step->rows = batch.rows();
  step->logit_rows = static_cast<int>(batch.logit_rows.size());
  step->partials = plan.partials;
  for (const WorkItem& item : plan.items) {
    step->items_.push_back(WholeItem(item, plan.spans[static_cast<size_t>(item.span)]));
  }
  step->row_positions_ = batch.positions;
  const HostUnits units = UnitsOf(step->items_, batch.positions, split);

  const size_t table = batch.tokens.size() * static_cast<size_t>(pairs) * sizeof(float);
  StepMemory::Array arrays[kStepArrays];
  arrays[kTokens] = ArrayOf(batch.tokens);
  arrays[kPositions] = ArrayOf(batch.positions);
  arrays[kSlots] = ArrayOf(batch.slots);
  arrays[kLogitIndex] = ArrayOf(batch.logit_rows);
  arrays[kMergeBegin] = ArrayOf(plan.merge_begin);
  arrays[kCounts] = {units.counts, sizeof(units.counts)};
  arrays[kManyRows] = ArrayOf(units.many_rows);
  arrays[kFewRows] = ArrayOf(units.few_rows);
  arrays[kPages] = ArrayOf(plan.pages);
  arrays[kMerges] = ArrayOf(plan.merges);
  arrays[kCosine] = {nullptr, table};
  arrays[kSine] = {nullptr, table};
  StepMemory& memory = *step->memory_;
  memory.Send(arrays, staging_);

  step->tokens = reinterpret_cast<std::int32_t*>(memory.at(kTokens));
  step->positions = reinterpret_cast<const std::int32_t*>(memory.at(kPositions));
  step->slots = reinterpret_cast<const std::int32_t*>(memory.at(kSlots));
  step->logit_index = reinterpret_cast<const std::int32_t*>(memory.at(kLogitIndex));
  step->pages = reinterpret_cast<const std::int32_t*>(memory.at(kPages));
  step->merge_begin = reinterpret_cast<const std::int32_t*>(memory.at(kMergeBegin));
  step->merges = reinterpret_cast<const MergeEntry*>(memory.at(kMerges));
  step->cosine = reinterpret_cast<float*>(memory.at(kCosine));
  step->sine = reinterpret_cast<float*>(memory.at(kSine));
  step->lists = {memory.at(kPositions), memory.at(kCosine)};
  step->split_ = split;
  step->units_ = ListsIn(memory, kCounts, units);
  return step;
}

const UnitLists& DeviceStep::UnitsFor(Split split, Staging& staging) const {
  if (split_ == split) return units_;
  const HostUnits units = UnitsOf(items_, row_positions_, split);
  const StepMemory::Array arrays[] = {
      {units.counts, sizeof(units.counts)}, ArrayOf(units.many_rows), ArrayOf(units.few_rows)};
  other_units_ = std::make_unique<StepMemory>(device_);
  other_units_->Send(arrays, staging);
  split_ = split;
  units_ = ListsIn(*other_units_, 0, units);
  return units_;
}

}  // namespace banyan::cuda
