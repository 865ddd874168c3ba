// Which items run through several groups of a chunk, and which workers take which items.
//
// The fewer items, the fewer partials and the less time between one item and the next; but workers
// that take the longest item first end together only if enough items are short. Items of few rows
// wait for memory, those of many for products: where both are many, some workers are left to the
// former from the start. All of this is guessed from times that the backend gives; the bits stay
// the same whatever is chosen.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/attention_plan.h"

namespace banyan {

// A task is an item for one KV head. All in one unit of time.
struct WorkerTimes {
  float cut = 1.0f;          // of a task of many rows
  float item = 1.0f;         // of such a task, beside its cuts
  float page = 1.0f;         // of a task of few rows
  float memory_page = 0.0f;  // the same, however many workers share the memory
  float start = 0.0f;        // before the first of few rows
};

struct GroupJoining {
  int least_rows = 0;  // of items of many rows, which alone may be joined; 0: none are
  int kv_heads = 1;
  int workers = 1;
  WorkerTimes times = {};
};

// Joins items that cover the groups of a chunk for the same rows. `continued`: [spans] whether a
// later span of the segment follows. Returns how many workers take the items of many rows first;
// the others have those of few rows from the start, and all have them in the end. REQUIRES: items
// in canonical order, each a cut or a run of cuts; least_rows >= 1.
int JoinGroups(const GroupJoining& joining, std::span<const KvSpan> spans,
               const std::vector<bool>& continued, std::vector<WorkItem>& items);

}  // namespace banyan
