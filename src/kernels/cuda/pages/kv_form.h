// KV pages between the device's layout (kv_pages.h) and the form that all backends share
// (kernels/page_form.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/pages/kv_copy.h"
#include "kernels/page_form.h"

namespace banyan::cuda {

// `bytes` on the device: [layers, pages, kv_heads, form.head_bytes]. Bytes that stand for nothing
// are left as they are.
void PagesToForm(cudaStream_t stream, const PageLayers& kv, const PageForm& form,
                 std::span<const std::int32_t> pages, std::byte* bytes);
// Also sets the flags of values that attention must keep from rows which do not see them.
void FormToPages(cudaStream_t stream, const PageLayers& kv, const PageForm& form,
                 std::span<const std::int32_t> pages, const std::byte* bytes);

}  // namespace banyan::cuda
