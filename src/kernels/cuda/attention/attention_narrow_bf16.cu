#include "kernels/cuda/attention/attention_narrow.cuh"

namespace banyan::cuda {

void AttendNarrowBF16(cudaStream_t stream, int blocks, const AttentionCall& call, bool after_wide) {
  AttendNarrow<KvKind<__nv_bfloat16, false>>(stream, blocks, call, after_wide);
}

}  // namespace banyan::cuda
