#include "kernels/cuda/attention/attention_mixed.cuh"

namespace banyan::cuda {

void AttendQ8(cudaStream_t stream, int blocks, const AttentionCall& call) {
  AttendWithMatrices<KvKind<__half, true>>(stream, blocks, call);
}

}  // namespace banyan::cuda
