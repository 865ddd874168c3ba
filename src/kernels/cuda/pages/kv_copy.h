// Copies of KV pages on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "kernels/cuda/pages/kv_pages.h"

namespace banyan::cuda {

// `first`: the blocks of layer 0; those of the others follow (KvPages).
struct PageLayers {
  KvView first;
  int layers = 0, pages = 0;
};

void CopyPages(cudaStream_t stream, const PageLayers& kv, std::span<const PageCopy> copies);

}  // namespace banyan::cuda
