#include "kernels/cuda/attention/attention_mixed.cuh"

namespace banyan::cuda {

void AttendBF16(cudaStream_t stream, int blocks, const AttentionCall& call) {
  AttendWithMatrices<KvKind<__nv_bfloat16, false>>(stream, blocks, call);
}

}  // namespace banyan::cuda
