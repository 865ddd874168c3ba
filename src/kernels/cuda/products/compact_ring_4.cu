#include "kernels/cuda/products/compact_ring.cuh"

namespace banyan::cuda::compact_ring {

void LaunchFourBits(cudaStream_t stream, const Call& call, const CompactRows& w,
                    const __nv_bfloat16* x) {
  switch (w.form) {
    case CompactForm::kQ4_0:
      return LaunchRows<CompactForm::kQ4_0>(stream, call, w, x);
    case CompactForm::kQ4_1:
      return LaunchRows<CompactForm::kQ4_1>(stream, call, w, x);
    case CompactForm::kQ4_K:
      return LaunchRows<CompactForm::kQ4_K>(stream, call, w, x);
    case CompactForm::kMXFP4:
      return LaunchRows<CompactForm::kMXFP4>(stream, call, w, x);
    default:
      return Check(cudaErrorInvalidValue, "product with compact weights");
  }
}

}  // namespace banyan::cuda::compact_ring
