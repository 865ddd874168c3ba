#include "kernels/cuda/products/compact_ring.cuh"

namespace banyan::cuda {
namespace compact_ring {

// In a file of its own: it compiles as long as the rest.
void LaunchFourBits(cudaStream_t stream, const Call& call, const CompactRows& w,
                    const __nv_bfloat16* x);

}  // namespace compact_ring

bool CompactRingCanServe(const CompactRows& w) {
  using namespace compact_ring;
  static const bool hopper = [] {
    int device = 0, major = 0;
    Check(cudaGetDevice(&device), "current device");
    Check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
    const auto kernel = RingKernel<CompactForm::kQ8_0, 1>;
    return major == 9 && StartsEarly(reinterpret_cast<const void*>(kernel)) && HasTensorMaps();
  }();
  return hopper && w.columns % kBoxColumns == 0;
}

void MultiplyCompactRing(cudaStream_t stream, const CompactRows& w,
                         const ProductOperands& operands) {
  using namespace compact_ring;
  const ProductShape& shape = operands.shape;
  if (shape.rows < 1 || shape.rows > kMostRingRows || shape.inner != w.columns) {
    Check(cudaErrorInvalidValue, "product with compact weights");
  }
  Call call{};
  call.end = {operands.out, operands.bias};
  call.form = operands.form;
  call.rows = static_cast<int>(shape.rows);
  call.first_row = w.first_row;
  call.out_stride = static_cast<int>(shape.out_stride);
  switch (w.form) {
    case CompactForm::kQ8_0:
      return LaunchRows<CompactForm::kQ8_0>(stream, call, w, operands.x);
    case CompactForm::kQ6_K:
      return LaunchRows<CompactForm::kQ6_K>(stream, call, w, operands.x);
    case CompactForm::kQ5_K:
      return LaunchRows<CompactForm::kQ5_K>(stream, call, w, operands.x);
    case CompactForm::kIQ4_NL:
      return LaunchRows<CompactForm::kIQ4_NL>(stream, call, w, operands.x);
    default:
      return LaunchFourBits(stream, call, w, operands.x);
  }
}

}  // namespace banyan::cuda
