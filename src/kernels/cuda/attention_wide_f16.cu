#include "kernels/cuda/attention_wide.cuh"

namespace banyan::cuda {

void AttendWideF16(cudaStream_t stream, int blocks, const AttentionCall& call) {
  AttendWide<__half>(stream, blocks, call);
}

}  // namespace banyan::cuda
