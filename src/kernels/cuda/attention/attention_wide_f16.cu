#include "kernels/cuda/attention/attention_wide.cuh"

namespace banyan::cuda {

bool HasHopperKernels() {
  static const bool has = [] {
    cudaFuncAttributes attributes{};
    Check(cudaFuncGetAttributes(&attributes, AttendWideKernel<KvKind<__half, false>, 128>),
          "attention");
    return attributes.ptxVersion >= 90;  // hopper.cuh refuses to compile them for 90 without the a
  }();
  return has;
}

void AttendWideF16(cudaStream_t stream, int blocks, const AttentionCall& call) {
  AttendWide<KvKind<__half, false>>(stream, blocks, call);
}

}  // namespace banyan::cuda
