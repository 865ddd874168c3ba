#include "kernels/cuda/attention/attention_wide.cuh"

namespace banyan::cuda {

void AttendWideBF16(cudaStream_t stream, int blocks, const AttentionCall& call) {
  AttendWide<KvKind<__nv_bfloat16, false>>(stream, blocks, call);
}

}  // namespace banyan::cuda
