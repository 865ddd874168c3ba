// KV pages on the device: copies of them, and their conversion to and from the form of all
// backends.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/pages/kv_pages.h"
#include "kernels/cuda/pages/kv_tiles.cuh"

namespace banyan::cuda {

namespace {

// --- Copies of pages ----------------------------------------------------------------------------
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

// --- Pages in the form that all backends share --------------------------------------------------
// As many as fit in the parameters of a
// launch.
constexpr int kMostPages = 256;

struct PageList {
  std::int32_t page[kMostPages];
};

struct FormCall {
  KvView first;              // of layer 0
  std::int64_t layer_bytes;  // of the device's layout
  KvType type;
  std::int64_t key_bytes, scale_offset, head_bytes;  // of the form
  int first_page, pages;                             // of this launch, and of all bytes
};

// Offset of an element in its block on the device, from the keys' or the values' first byte.
__device__ std::int64_t DeviceOffset(const FormCall& call, int token, int d) {
  const KvLayout& layout = call.first.layout;
  if (layout.element_bytes == 2) return 2 * std::int64_t{TileOffset(token, d, layout.padded_dim)};
  if (layout.element_bytes == 1) return CodeOffset(token, d, layout.padded_dim);
  return std::int64_t{layout.element_bytes} * (token * layout.padded_dim + d);
}

__device__ std::int64_t FormOffset(const FormCall& call, int token, int d, bool value) {
  const std::int64_t index =
      value ? (d / 16) * 16 * kPageTokens + token * 16 + d % 16 : d * kPageTokens + token;
  return (value ? call.key_bytes : 0) + index * call.first.layout.element_bytes;
}

__device__ void CopyElement(int bytes, const std::byte* from, std::byte* to) {
  if (bytes == 4)
    *reinterpret_cast<std::uint32_t*>(to) = *reinterpret_cast<const std::uint32_t*>(from);
  if (bytes == 2)
    *reinterpret_cast<std::uint16_t*>(to) = *reinterpret_cast<const std::uint16_t*>(from);
  if (bytes == 1) *to = *from;
}

// A value as rope_store.cu saw it when it set the token's flag, as far as the type still tells.
__device__ bool UnrulyValue(const FormCall& call, const std::byte* head, int token, int d) {
  const std::byte* at = head + FormOffset(call, token, d, true);
  if (call.type == KvType::kF32) return Unruly(*reinterpret_cast<const float*>(at));
  if (call.type == KvType::kF16)
    return !isfinite(__half2float(*reinterpret_cast<const __half*>(at)));
  if (call.type == KvType::kBF16) {
    return Unruly(__bfloat162float(*reinterpret_cast<const __nv_bfloat16*>(at)));
  }
  const float scale = reinterpret_cast<const float*>(head + call.scale_offset)[kPageTokens + token];
  return Unruly(scale * static_cast<float>(*reinterpret_cast<const std::int8_t*>(at)));
}

// A block takes one page of one layer.
template <bool kToForm>
__global__ void FormKernel(const __grid_constant__ PageList list, FormCall call, std::byte* bytes) {
  WaitForEarlierKernels();
  const KvLayout& layout = call.first.layout;
  const int heads = layout.kv_heads, dim = layout.head_dim;
  std::byte* page = call.first.layer + blockIdx.y * call.layer_bytes +
                    std::int64_t{list.page[blockIdx.x]} * heads * layout.block_bytes;
  std::byte* form = bytes + (std::int64_t{blockIdx.y} * call.pages + call.first_page + blockIdx.x) *
                                heads * call.head_bytes;
  for (int i = static_cast<int>(threadIdx.x); i < heads * 2 * kPageTokens * dim; i += kThreads) {
    const int d = i % dim, token = i / dim % kPageTokens, half = i / (dim * kPageTokens);
    const int head = half / 2;
    const bool value = half % 2 == 1;
    std::byte* on_device = page + std::int64_t{head} * layout.block_bytes +
                           (value ? layout.value_offset : 0) + DeviceOffset(call, token, d);
    std::byte* in_form = form + head * call.head_bytes + FormOffset(call, token, d, value);
    CopyElement(layout.element_bytes, kToForm ? on_device : in_form, kToForm ? in_form : on_device);
  }
  for (int i = static_cast<int>(threadIdx.x); i < heads * kPageTokens; i += kThreads) {
    const int head = i / kPageTokens, token = i % kPageTokens;
    std::byte* block = page + std::int64_t{head} * layout.block_bytes;
    std::byte* in_form = form + head * call.head_bytes;
    if (call.type == KvType::kQ8) {
      for (int half = 0; half < 2; ++half) {
        std::byte* scales = block + half * layout.value_offset + layout.scale_offset;
        float& scale = reinterpret_cast<float*>(scales)[token];
        float& kept =
            reinterpret_cast<float*>(in_form + call.scale_offset)[half * kPageTokens + token];
        if (kToForm) {
          kept = scale;
        } else {
          scale = kept;
        }
      }
    }
    if (kToForm) continue;
    bool unruly = false;
    for (int d = 0; d < dim; ++d) unruly = unruly || UnrulyValue(call, in_form, token, d);
    reinterpret_cast<std::uint8_t*>(block + layout.flag_offset)[token] = unruly ? 1 : 0;
    if (unruly) *call.first.any_flag = 1;
  }
}

template <bool kToForm>
void Launch(cudaStream_t stream, const PageLayers& kv, const PageForm& form,
            std::span<const std::int32_t> pages, std::byte* bytes) {
  const KvLayout& layout = kv.first.layout;
  FormCall call{kv.first,
                std::int64_t{layout.block_bytes} * layout.kv_heads * kv.pages,
                form.type,
                form.value_offset(),
                form.scale_offset(),
                form.head_bytes,
                0,
                static_cast<int>(pages.size())};
  for (std::size_t first = 0; first < pages.size(); first += kMostPages) {
    const std::size_t left = pages.size() - first;
    const auto count = left < kMostPages ? left : std::size_t{kMostPages};
    PageList list{};
    for (std::size_t i = 0; i < count; ++i) list.page[i] = pages[first + i];
    call.first_page = static_cast<int>(first);
    const LaunchShape shape{dim3(static_cast<unsigned>(count), static_cast<unsigned>(kv.layers)),
                            kThreads};
    LaunchEarly(stream, shape, "KV pages in another form", FormKernel<kToForm>, list, call, bytes);
  }
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

void PagesToForm(cudaStream_t stream, const PageLayers& kv, const PageForm& form,
                 std::span<const std::int32_t> pages, std::byte* bytes) {
  Launch<true>(stream, kv, form, pages, bytes);
}

void FormToPages(cudaStream_t stream, const PageLayers& kv, const PageForm& form,
                 std::span<const std::int32_t> pages, const std::byte* bytes) {
  Launch<false>(stream, kv, form, pages, const_cast<std::byte*>(bytes));
}

}  // namespace banyan::cuda
