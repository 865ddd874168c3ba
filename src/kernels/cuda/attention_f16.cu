#include "kernels/cuda/attention_mixed.cuh"

namespace banyan::cuda {

void AttendF16(cudaStream_t stream, const AttentionCall& call) {
  AttendWithMatrices<KvKind<__half, false>>(stream, call);
}

}  // namespace banyan::cuda
