#include "base/error.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/kernels.h"
#include "kernels/reference/reference_kernels.h"
#ifdef BANYAN_WITH_CUDA
#include "kernels/cuda/cuda_kernels.h"
#endif

namespace banyan {

std::unique_ptr<Kernels> MakeKernels(const std::string& device, const KernelOptions& options) {
  if (device == "reference") return MakeReferenceKernels(options);
  if (device == "cpu") return MakeCpuKernels(options);
  if (device == "cuda") {
#ifdef BANYAN_WITH_CUDA
    return MakeCudaKernels(options);
#else
    Throw(ErrorKind::kUnsupported,
          "device cuda: this build has no CUDA backend (configure with -DBANYAN_CUDA=ON where nvcc "
          "and cuBLASLt are installed)");
#endif
  }
  Throw(ErrorKind::kUsage, "unknown device '{}': expected cpu, cuda or reference", device);
}

}  // namespace banyan
