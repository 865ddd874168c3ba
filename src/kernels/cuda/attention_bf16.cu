#include "kernels/cuda/attention_mixed.cuh"

namespace banyan::cuda {

void AttendBF16(cudaStream_t stream, const AttentionCall& call) {
  AttendWithMatrices<KvKind<__nv_bfloat16, false>>(stream, call);
}

}  // namespace banyan::cuda
