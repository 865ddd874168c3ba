#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/pages/kv_copy.h"

namespace banyan::cuda {
namespace {

constexpr int kThreads = 256;
// As many as fit in the parameters of a launch.
constexpr int kMostCopies = 256;

struct CopyList {
  PageCopy copy[kMostCopies];
};

// A block copies one page of one layer.
__global__ void CopyPagesKernel(const __grid_constant__ CopyList list, std::byte* first,
                                std::int64_t page_bytes, std::int64_t layer_bytes) {
  WaitForEarlierKernels();
  const PageCopy copy = list.copy[blockIdx.x];
  std::byte* layer = first + blockIdx.y * layer_bytes;
  const auto* from = reinterpret_cast<const uint4*>(layer + copy.from * page_bytes);
  auto* to = reinterpret_cast<uint4*>(layer + copy.to * page_bytes);
  const auto count = static_cast<int>(page_bytes / sizeof(uint4));
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) to[i] = from[i];
}

}  // namespace

void CopyPages(cudaStream_t stream, const PageLayers& kv, std::span<const PageCopy> copies) {
  const std::int64_t page_bytes =
      std::int64_t{kv.first.layout.block_bytes} * kv.first.layout.kv_heads;
  while (!copies.empty()) {
    const auto count = copies.size() < kMostCopies ? copies.size() : std::size_t{kMostCopies};
    CopyList list{};
    for (std::size_t i = 0; i < count; ++i) list.copy[i] = copies[i];
    const LaunchShape shape{dim3(static_cast<unsigned>(count), static_cast<unsigned>(kv.layers)),
                            kThreads};
    LaunchEarly(stream, shape, "copies of KV pages", CopyPagesKernel, list, kv.first.layer,
                page_bytes, page_bytes * kv.pages);
    copies = copies.subspan(count);
  }
}

}  // namespace banyan::cuda
