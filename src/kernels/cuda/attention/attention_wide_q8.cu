#include "kernels/cuda/attention/attention_wide.cuh"

namespace banyan::cuda {

void AttendWideQ8(cudaStream_t stream, int blocks, const AttentionCall& call) {
  AttendWide<KvKind<__half, true>>(stream, blocks, call);
}

}  // namespace banyan::cuda
