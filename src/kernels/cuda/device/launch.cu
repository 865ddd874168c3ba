// What kernels the device runs: asked once, of a kernel that stands for all of them.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/tensor_map.h"

namespace banyan::cuda {
namespace {

__global__ void ProbeKernel() {}

}  // namespace

bool StartsEarly() {
  static const bool early = [] {
    cudaFuncAttributes attributes{};
    Check(cudaFuncGetAttributes(&attributes, ProbeKernel), "attributes of a kernel");
    return attributes.ptxVersion >= 90;
  }();
  return early;
}

bool HasHopperKernels() {
  static const bool hopper = [] {
    int device = 0, major = 0;
    Check(cudaGetDevice(&device), "current device");
    Check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
    return major == 9 && StartsEarly() && HasTensorMaps();
  }();
  return hopper;
}

}  // namespace banyan::cuda
