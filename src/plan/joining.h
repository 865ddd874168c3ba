// Which items run through several groups of a stretch. The fewer items, the fewer partials and the
// less time between one item and the next; but workers that take the longest item first end
// together only if enough items are short. The bits stay the same either way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/attention_plan.h"

namespace banyan {

// What a step asks of workers, for one KV head. Items of few rows wait for memory, those of many
// for products.
struct StepLoad {
  std::int64_t many_groups = 0;  // groups, or parts of one, that are items of many rows
  std::int64_t many_cuts = 0;    // of the same items
  std::int64_t few_items = 0;
  std::int64_t few_pages = 0;  // of items of few rows
};

// A backend's workers and how items of many and of few rows share them.
struct WorkerDivision {
  int workers = 1;
  // What a worker takes for a cut of an item of many rows and for a page of one of few rows, in any
  // unit of time.
  float cut_time = 1.0f, page_time = 1.0f;
  // Items of few rows with so many pages on average are long: memory's bandwidth limits them. 0:
  // they are never given workers of their own.
  int pages_of_long_item = 0;

  // Workers set apart for items of few rows, so that both kinds end together; 0: all workers take
  // these after the others. That is so where there are no rounds of items of many rows, and where
  // items of few rows are short: they do not wait for bandwidth, and gain nothing from more of it.
  [[nodiscard]] int SetApart(const StepLoad& load, int kv_heads) const;
};

struct GroupJoining {
  int least_rows = 0;  // of items of many rows, which alone may be joined; 0: none are
  int kv_heads = 1;    // every item is a task for each of them
  WorkerDivision division = {};
};

// Joins items that cover the groups of a stretch for the same rows. `continued`: [spans] whether a
// later span of the segment follows.
// REQUIRES: items in canonical order, each a cut or a run of cuts.
void JoinGroups(const GroupJoining& joining, std::span<const KvSpan> spans,
                const std::vector<bool>& continued, std::vector<WorkItem>& items);

}  // namespace banyan
