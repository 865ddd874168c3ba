// KV memory on the device. Per layer, page and KV head one block: keys, values, each of them for
// 8-bit codes with a float32 scale per token behind it, and right after that a flag per token that
// marks values which attention must not let near rows that do not see them. 16-bit and 8-bit keys
// and values lie in tiles (kv_tiles.cuh), others as [16, padded_dim]. Padding is zero. What a token
// wrote stays, flag included, until another is written in its place.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/kernels.h"
#include "kernels/page_form.h"

namespace banyan::cuda {

// Offsets within a block and of blocks, in bytes.
struct KvLayout {
  int kv_heads = 0;
  int head_dim = 0;
  int padded_dim = 0;  // elements from token to token
  int element_bytes = 0;
  std::int32_t value_offset = 0;
  // Of the scales [16] of keys or values from the first of them; 8-bit codes only.
  std::int32_t scale_offset = 0;
  std::int32_t flag_offset = 0;  // [16] bytes
  std::int32_t block_bytes = 0;  // of one head of one page
};

// Elements from token to token in a page. 16-bit and 8-bit heads are padded to a size that the
// matrix kernels of attention are compiled for; float32 heads are not.
int PaddedHeadDim(int head_dim, KvType type);

// Throws kUnsupported where this backend has no attention for the head size.
KvLayout LayoutOf(const KvHeads& heads, KvType type);
// Bytes of a page over all layers.
std::int64_t PageBytesOf(const KvShape& shape, KvType type);

struct PageLayers;

// What kernels get: the blocks of one layer.
struct KvView {
  std::byte* layer = nullptr;        // [pages, kv_heads, block_bytes]
  std::int32_t* any_flag = nullptr;  // not zero once some flag of the pages was ever set
  KvLayout layout;
};

class KvPages : public KvMemory {
 public:
  KvPages(const std::shared_ptr<const Device>& device, const KvShape& shape, int page_count,
          KvType type);

  KvView Layer(int layer) const;
  // All layers, in runs of neighbours that are alike.
  std::vector<PageLayers> Runs() const;
  const KvShape& shape() const { return shape_; }
  const void* data() const { return memory_.As<void>(); }

 private:
  KvShape shape_;
  std::vector<KvLayout> layouts_;     // [layers]
  std::vector<std::int64_t> begins_;  // [layers] bytes
  DeviceMemory memory_;  // [layers][pages, kv_heads, block_bytes], then KvView::any_flag
  std::int64_t any_flag_offset_ = 0;
};

// Layers of one layout. `first`: the blocks of the first; those of the others follow.
struct PageLayers {
  KvView first;
  int layers = 0, pages = 0;
};

void CopyPages(cudaStream_t stream, const PageLayers& kv, std::span<const PageCopy> copies);

// Between the device's layout and the form that all backends share (kernels/page_form.h).
// `bytes` on the device: [layers, pages, kv_heads, form.head_bytes]. Padding
// bytes are left as they are.
void PagesToForm(cudaStream_t stream, const PageLayers& kv, const PageForm& form,
                 std::span<const std::int32_t> pages, std::byte* bytes);
// Also sets the flags of values that attention must keep from rows which do not see them.
void FormToPages(cudaStream_t stream, const PageLayers& kv, const PageForm& form,
                 std::span<const std::int32_t> pages, const std::byte* bytes);

}  // namespace banyan::cuda
