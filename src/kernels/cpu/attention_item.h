// One work item of attention: a range of rows on a run of keys, for one KV head.
#pragma once

#include "kernels/cpu/attention.h"

namespace banyan {

// Computes the item's partials. `worker` is the thread's number in scratch.workers.
void RunAttentionItem(const AttentionCall& call, const WorkItem& item, int kv_head,
                      const VectorKernels& vector, AttentionScratch& scratch, int worker);

}  // namespace banyan
