#include "kernels/cuda/attention_narrow.cuh"

namespace banyan::cuda {

void AttendNarrowF16(cudaStream_t stream, int blocks, const AttentionCall& call) {
  AttendNarrow<__half>(stream, blocks, call);
}

}  // namespace banyan::cuda
