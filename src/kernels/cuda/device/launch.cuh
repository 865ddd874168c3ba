// Launches that may begin while the kernel before them ends (programmatic dependent launch, sm_90):
// the next kernel's blocks take their places and fetch constants while the last blocks of this one
// finish, which hides most of a small kernel's launch.
//
// REQUIRES of every kernel launched so: all threads call WaitForEarlierKernels() before they read
// or write anything that an earlier kernel reads or writes. Weights and parameters are constants
// and may be fetched before; so may what Upload copies (slots, lists): the kernel that it launches
// after the copies does not begin before they are done, and nothing of the step begins before that
// one.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace banyan::cuda {

// All earlier kernels of the stream are done and their results visible.
__device__ inline void WaitForEarlierKernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The next kernel may take its place from now on (once every block has said so).
__device__ inline void LetNextKernelStart() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Whether the code that runs here was compiled with the two instructions above: a kernel without
// the wait must not start early. All kernels are compiled for the same architectures.
bool StartsEarly();

// Calls `set` once on every device, as the attributes of a kernel are a device's own; again where
// it threw. Thread-safe: two threads may both call it.
class OncePerDevice {
 public:
  template <typename Set>
  void operator()(const Set& set) {
    int device = 0;
    Check(cudaGetDevice(&device), "current device");
    std::atomic<bool>& done = done_[static_cast<unsigned>(device) % kMostDevices];
    if (done.load(std::memory_order_acquire)) return;
    set();
    done.store(true, std::memory_order_release);
  }

 private:
  static constexpr unsigned kMostDevices = 64;
  std::atomic<bool> done_[kMostDevices] = {};
};

// More shared memory for a block than the language grants by itself.
template <auto kKernel>
void RaiseSharedMemory(int bytes) {
  static OncePerDevice raised;
  raised([bytes] {
    Check(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
          "shared memory of a kernel");
  });
}

struct LaunchShape {
  dim3 grid;
  int threads = 0;
  std::size_t shared_bytes = 0;
};

template <typename... Parameters, typename... Arguments>
void LaunchEarly(cudaStream_t stream, const LaunchShape& shape, const char* what,
                 void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (StartsEarly()) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
#if CUDART_VERSION >= 12080
  // A multiprocessor redivides its memory between cache and shared memory only while it is idle.
  // Products and attention want most of it shared: a kernel that begins while one of them still
  // runs must want the same.
  attributes[count].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
  attributes[count++].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
#endif
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  Check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), what);
}

}  // namespace banyan::cuda
