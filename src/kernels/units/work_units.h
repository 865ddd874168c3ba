// Items and merge lists of a plan as a device's kernels take them: work units of the sizes that the
// kernels are made for, in the order of execution, and the steps of merging.
//
// A work unit is some "packed rows" of an item for one KV head: packed row i is query head
// i % ratio of the item's row i / ratio, where ratio = heads per KV head, so that few rows with
// many heads still fill a matrix instruction.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/attention_plan.h"

namespace banyan {

// Packed rows of a unit of each kind (kernels/cuda/attention/attention.h).
inline constexpr int kBlockRows = 64, kWideRows = 128, kNarrowRows = 8;
// Packed rows of an item that narrow units still read well; more, and items of several groups, go
// to wide units.
inline constexpr int kMostNarrowRows = 2 * kNarrowRows;

// Which kernels take a step's units.
enum class UnitForm { kBlocks, kWideAndNarrow };

// What the units of a step depend on beside its items.
struct UnitSplit {
  int ratio = 0;  // query heads per KV head
  int kv_heads = 0;
  UnitForm form = UnitForm::kBlocks;
  auto operator<=>(const UnitSplit&) const = default;
};

// Rows of an item from which on it is wide: what GroupJoining takes for many.
constexpr int LeastWideRows(int ratio) { return kMostNarrowRows / ratio + 1; }

// An item's rows from `first_packed_row` on, with all that a kernel needs to know of item and span
// after one load. Offsets count positions from the span's key 0.
struct alignas(16) WorkUnit {
  std::int32_t row_begin = 0, row_end = 0;        // of the item
  std::int32_t reader_begin = 0, reader_end = 0;  // see WorkItem
  std::int32_t key_begin = 0, key_end = 0;
  std::int32_t first_partial = 0;
  std::int32_t first_page = 0;
  std::int32_t first_position = 0;
  std::int32_t first_packed_row = 0;
  std::int32_t lowest_offset = 0, highest_offset = 0;  // of the unit's rows
};
static_assert(sizeof(WorkUnit) == 48);

// Units of a step, and how many blocks take wide ones: the other multiprocessors have narrow ones
// from the start.
struct UnitCounts {
  std::int32_t wide = 0;  // kBlocks: all units
  std::int32_t narrow = 0;
  std::int32_t wide_blocks = 0;  // 0: there are no wide units
  std::int32_t reads_again = 0;  // AttentionPlan::reads_again, filled in by who has the plan
};

// Wide units are sorted longest first; of about equal length, readers of the same keys are
// adjacent. All others are in the order of their items.
struct HostUnits {
  std::vector<WorkUnit> many_rows;  // kBlocks: all units; else the wide ones
  std::vector<WorkUnit> few_rows;   // the narrow ones
  UnitCounts counts;
};

// Every item of the plan once, in its order, with all its rows; not yet with offsets.
std::vector<WorkUnit> WholeItems(const AttentionPlan& plan);

// `items` are of WholeItems, `positions` of the step's rows. `wide_blocks` blocks take wide units
// where there are narrow ones as well (AttentionPlan::many_row_workers).
HostUnits UnitsOf(std::span<const WorkUnit> items, std::span<const std::int32_t> positions,
                  const UnitSplit& split, int wide_blocks);

// --- Merge lists as a device follows them --------------------------------------------------------
// One running partial, saved only where the canonical order (attention_plan.h) needs a second one.
// A single entry, the first group of a chunk and the first chunk of a row need none of their
// own, so most lists are merged entry by entry from the left.

inline constexpr int kMostAside = 2;  // saved partials: the row's and a chunk's, during a group

struct MergeStep {
  std::int32_t partial = 0;
  // First, scale the running partial, which is all of the row's parallel context.
  std::uint8_t scales_context = 0;
  // Before the partial is merged, save the running one and start a new one.
  std::uint8_t opens = 0;
  // Afterwards, this many times, merge the running partial into the one saved last.
  std::uint8_t closes = 0;
};

// One step for every entry of the plan's merge lists.
std::vector<MergeStep> MergeStepsOf(const AttentionPlan& plan);

}  // namespace banyan
