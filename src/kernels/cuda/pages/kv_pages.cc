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
  for (const int size : {32, 64, 80, 96, 128, 256, 512}) {
    if (head_dim <= size) return size;
  }
  Throw(ErrorKind::kUnsupported,
        "device cuda: heads of {} values: expected at most 512 in precision mixed (f32 takes any)",
        head_dim);
}

KvLayout LayoutOf(const KvHeads& heads, KvType type) {
  KvLayout layout;
  layout.kv_heads = heads.heads;
  layout.head_dim = heads.dim;
  layout.padded_dim = PaddedHeadDim(heads.dim, type);
  layout.element_bytes = ElementBytes(type);
  const std::int64_t half = std::int64_t{kPageTokens} * layout.padded_dim * layout.element_bytes;
  const int scales = type == KvType::kQ8 ? kPageTokens * 4 : 0;
  layout.scale_offset = RoundUp(half, 16);
  layout.value_offset = layout.scale_offset + scales;
  layout.flag_offset = 2 * layout.value_offset;
  layout.block_bytes = RoundUp(layout.flag_offset + kPageTokens, 128);
  return layout;
}

std::int64_t PageBytesOf(const KvShape& shape, KvType type) {
  std::int64_t bytes = 0;
  for (int layer = 0; layer < shape.layers; ++layer) {
    const KvLayout layout = LayoutOf(shape.Of(layer), type);
    bytes += std::int64_t{layout.block_bytes} * layout.kv_heads;
  }
  return bytes;
}

KvPages::KvPages(const std::shared_ptr<const Device>& device, const KvShape& shape, int page_count,
                 KvType type)
    : shape_(shape) {
  BANYAN_CHECK(page_count >= 0);
  pages = page_count;
  for (int layer = 0; layer < shape.layers; ++layer) {
    const KvLayout& layout = layouts_.emplace_back(LayoutOf(shape.Of(layer), type));
    begins_.push_back(any_flag_offset_);
    any_flag_offset_ += std::int64_t{layout.block_bytes} * layout.kv_heads * page_count;
  }
  memory_ = DeviceMemory(device, any_flag_offset_ + static_cast<std::int64_t>(sizeof(std::int32_t)),
                         "KV pages");
  memory_.Zero();
}

KvView KvPages::Layer(int layer) const {
  BANYAN_CHECK(layer >= 0 && layer < shape_.layers);
  const auto index = static_cast<size_t>(layer);
  return {memory_.As<std::byte>() + begins_[index],
          reinterpret_cast<std::int32_t*>(memory_.As<std::byte>() + any_flag_offset_),
          layouts_[index]};
}

std::vector<PageLayers> KvPages::Runs() const {
  std::vector<PageLayers> runs;
  for (int layer = 0; layer < shape_.layers; ++layer) {
    if (layer == 0 || !(shape_.Of(layer) == shape_.Of(layer - 1))) {
      runs.push_back({Layer(layer), 0, pages});
    }
    ++runs.back().layers;
  }
  return runs;
}

}  // namespace banyan::cuda
