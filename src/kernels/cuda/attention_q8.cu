#include "kernels/cuda/attention_mixed.cuh"

namespace banyan::cuda {

void AttendQ8(cudaStream_t stream, const AttentionCall& call) {
  AttendWithMatrices<KvKind<__half, true>>(stream, call);
}

}  // namespace banyan::cuda
