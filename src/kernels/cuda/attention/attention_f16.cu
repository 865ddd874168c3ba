#include "kernels/cuda/attention/attention_mixed.cuh"

namespace banyan::cuda {

void AttendF16(cudaStream_t stream, int blocks, const AttentionCall& call) {
  AttendWithMatrices<KvKind<__half, false>>(stream, blocks, call);
}

}  // namespace banyan::cuda
