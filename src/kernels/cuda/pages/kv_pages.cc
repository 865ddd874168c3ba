// KV memory on the device: its layout. The kernels are in kv_pages.cu.
#include "kernels/cuda/pages/kv_pages.h"

#include "base/error.h"

namespace banyan::cuda {
namespace {

int ElementBytes(KvType type) {
  switch (type) {
    case KvType::kF32:
      return 4;
    case KvType::kF16:
    case KvType::kBF16:
      return 2;
    case KvType::kQ8:
      return 1;
  }
  return 4;
}

std::int32_t RoundUp(std::int64_t bytes, int to) {
  return static_cast<std::int32_t>((bytes + to - 1) / to * to);
}

}  // namespace

int PaddedHeadDim(int head_dim, KvType type) {
  if (type == KvType::kF32) return head_dim;
  for (const int size : {32, 64, 80, 96, 128, 256}) {
    if (head_dim <= size) return size;
  }
  Throw(ErrorKind::kUnsupported,
        "device cuda: heads of {} values: expected at most 256 in precision mixed (f32 takes any)",
        head_dim);
}

KvLayout LayoutOf(const KvShape& shape, KvType type) {
  KvLayout layout;
  layout.kv_heads = shape.kv_heads;
  layout.head_dim = shape.head_dim;
  layout.padded_dim = PaddedHeadDim(shape.head_dim, type);
  layout.element_bytes = ElementBytes(type);
  const std::int64_t half = std::int64_t{kPageTokens} * layout.padded_dim * layout.element_bytes;
  const int scales = type == KvType::kQ8 ? kPageTokens * 4 : 0;
  layout.scale_offset = RoundUp(half, 16);
  layout.value_offset = layout.scale_offset + scales;
  layout.flag_offset = 2 * layout.value_offset;
  layout.block_bytes = RoundUp(layout.flag_offset + kPageTokens, 128);
  return layout;
}

KvPages::KvPages(const std::shared_ptr<const Device>& device, const KvShape& shape, int page_count,
                 KvType type)
    : shape_(shape), layout_(LayoutOf(shape, type)) {
  BANYAN_CHECK(page_count >= 0);
  pages = page_count;
  const std::int64_t page = std::int64_t{layout_.block_bytes} * shape.kv_heads * shape.layers;
  any_flag_offset_ = page * page_count;
  memory_ = DeviceMemory(device, any_flag_offset_ + static_cast<std::int64_t>(sizeof(std::int32_t)),
                         "KV pages");
  memory_.Zero();
}

KvView KvPages::Layer(int layer) const {
  BANYAN_CHECK(layer >= 0 && layer < shape_.layers);
  const std::int64_t bytes = std::int64_t{layout_.block_bytes} * shape_.kv_heads * pages;
  return {memory_.As<std::byte>() + layer * bytes,
          reinterpret_cast<std::int32_t*>(memory_.As<std::byte>() + any_flag_offset_), layout_};
}

}  // namespace banyan::cuda
