// One work item of attention: a range of rows on a run of keys, for one KV head.
#pragma once

#include "kernels/cpu/attention.h"

namespace banyan {

// Whether the item's keys and values are copied as float32 before they are used. The heads of one
// row are too few to pay for that: they convert in registers.
inline bool ReadsCopies(const AttentionCall& call, const WorkItem& item) {
  return item.row_end - item.row_begin > 1 || call.kv.panel_type() == KvType::kQ8;
}

// Computes the item's partials. REQUIRES: it has keys (CheckPlan). `worker` is the thread's number
// in scratch.workers.
void RunAttentionItem(const AttentionCall& call, const WorkItem& item, int kv_head,
                      const VectorKernels& vector, AttentionScratch& scratch, int worker);

}  // namespace banyan
