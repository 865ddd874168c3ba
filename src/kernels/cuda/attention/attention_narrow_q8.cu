#include "kernels/cuda/attention/attention_narrow.cuh"

namespace banyan::cuda {

void AttendNarrowQ8(cudaStream_t stream, int blocks, const AttentionCall& call, bool after_wide) {
  AttendNarrow<KvKind<__half, true>>(stream, blocks, call, after_wide);
}

}  // namespace banyan::cuda
