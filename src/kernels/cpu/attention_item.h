// One work item of attention: a range of rows on a run of keys, for one KV head.
#pragma once

#include "kernels/cpu/attention.h"

namespace banyan {

// Number `partial` of those that `scratch` has room for: heads of a plan's partials.
PartialRef PartialOf(const AttentionScratch& scratch, std::int64_t partial, int padded_dim);

// Computes the item's partials. `worker` is the thread's number in scratch.workers.
void RunAttentionItem(const AttentionCall& call, const WorkItem& item, int kv_head,
                      const VectorKernels& vector, AttentionScratch& scratch, int worker);

}  // namespace banyan
