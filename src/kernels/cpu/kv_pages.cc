#include "kernels/cpu/kv_pages.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "tensor/narrow_floats.h"

namespace banyan {
namespace {

constexpr int kTokens = kPageTokens;
static_assert(kPageTokens == kPanelWidth, "a page of keys is one panel");

void PutElement(KvType type, std::byte* base, std::int64_t index, float value) {
  if (type == KvType::kF32) {
    std::memcpy(base + 4 * index, &value, 4);
    return;
  }
  const std::uint16_t half = type == KvType::kF16 ? FloatToF16(value) : FloatToBF16(value);
  std::memcpy(base + 2 * index, &half, 2);
}

// Scale of an 8-bit vector: the largest magnitude becomes 127. NaN when a value is not finite.
float HeadScale(const float* values, int count) {
  float largest = 0.0f;
  for (int i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) return NAN;
    largest = std::max(largest, std::fabs(values[i]));
  }
  return largest / 127.0f;
}

std::int8_t Code(float value, float scale) {
  return !(scale > 0.0f) ? std::int8_t{0} : static_cast<std::int8_t>(std::nearbyint(value / scale));
}

}  // namespace

std::int64_t KvPages::PageBytes(const KvShape& shape, KvType type) {
  std::int64_t bytes = 0;
  for (int layer = 0; layer < shape.layers; ++layer) {
    bytes += FormOfLayer(shape, layer, type).page_bytes();
  }
  return bytes;
}

KvPages::KvPages(const KvShape& shape, int page_count, KvType type)
    : type_(type), bytes_(nullptr, std::free) {
  pages = page_count;
  std::int64_t page_bytes = 0;
  for (int layer = 0; layer < shape.layers; ++layer) {
    const PageForm form = FormOfLayer(shape, layer, type);
    layers_.push_back({form, (form.shape.head_dim + 15) / 16 * 16, page_bytes});
    page_bytes += form.page_bytes();
  }
  const std::int64_t bytes = page_bytes * page_count;
  bytes_.reset(static_cast<std::byte*>(std::calloc(1, static_cast<size_t>(bytes))));
  if (bytes_ == nullptr) {
    Throw(ErrorKind::kLimit, "no memory for {} KV pages ({} MiB)", page_count, bytes >> 20);
  }
}

std::byte* KvPages::Head(int layer, int head, std::int32_t page) {
  return const_cast<std::byte*>(static_cast<const KvPages*>(this)->Head(layer, head, page));
}

const std::byte* KvPages::Head(int layer, int head, std::int32_t page) const {
  const Layer& at = layers_[static_cast<size_t>(layer)];
  const std::int64_t index = std::int64_t{page} * at.form.shape.kv_heads + head;
  return bytes_.get() + at.page_offset * pages + index * at.form.head_bytes;
}

void KvPages::Copy(const PageCopy& copy) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const int layer = static_cast<int>(i);
    std::memcpy(Head(layer, 0, copy.to), Head(layer, 0, copy.from),
                static_cast<size_t>(layers_[i].form.page_bytes()));
  }
}

// The memory is in page form already.
void KvPages::Read(std::int32_t page, const Place& place, std::span<std::byte> bytes) const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const std::int64_t size = layers_[i].form.page_bytes();
    const std::int64_t at = layers_[i].page_offset * place.count + size * place.index;
    BANYAN_CHECK(at + size <= static_cast<std::int64_t>(bytes.size()));
    std::memcpy(bytes.data() + at, Head(static_cast<int>(i), 0, page), static_cast<size_t>(size));
  }
}

void KvPages::Write(std::int32_t page, const Place& place, std::span<const std::byte> bytes) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const std::int64_t size = layers_[i].form.page_bytes();
    const std::int64_t at = layers_[i].page_offset * place.count + size * place.index;
    BANYAN_CHECK(at + size <= static_cast<std::int64_t>(bytes.size()));
    std::memcpy(Head(static_cast<int>(i), 0, page), bytes.data() + at, static_cast<size_t>(size));
  }
}

const void* KvPages::Values(int layer, int head, std::int32_t page, int token) const {
  const PageForm& form = layers_[static_cast<size_t>(layer)].form;
  const std::int64_t at = form.key_elements + token * 16;
  return Head(layer, head, page) + at * form.element_bytes;
}

void KvPages::Store(const VectorKernels& vector, int layer, int head, std::int32_t slot,
                    const float* key, const float* value) {
  const PageForm& form = layers_[static_cast<size_t>(layer)].form;
  const int dim = form.shape.head_dim;
  const int token = slot % kTokens;
  std::byte* keys = Head(layer, head, slot / kTokens);
  std::byte* values = keys + form.value_offset();
  if (type_ == KvType::kQ8) {
    std::byte* scales = values + form.value_elements;
    const float key_scale = HeadScale(key, dim);
    const float value_scale = HeadScale(value, dim);
    std::memcpy(scales + 4 * token, &key_scale, 4);
    std::memcpy(scales + 4 * (kTokens + token), &value_scale, 4);
    for (int d = 0; d < dim; ++d) {
      keys[d * kTokens + token] = static_cast<std::byte>(Code(key[d], key_scale));
      values[(d / 16) * 256 + token * 16 + d % 16] =
          static_cast<std::byte>(Code(value[d], value_scale));
    }
    return;
  }
  int done = 0;
  if (type_ != KvType::kF32) {
    const auto convert = type_ == KvType::kF16 ? vector.float_to_f16 : vector.float_to_bf16;
    for (; done + 16 <= dim; done += 16) {
      std::uint16_t halves[16];
      convert(key + done, 16, halves);
      for (int i = 0; i < 16; ++i) {
        std::memcpy(keys + 2 * ((done + i) * kTokens + token), &halves[i], 2);
      }
      convert(value + done, 16, halves);
      std::memcpy(values + 2 * (done * kTokens + token * 16), halves, sizeof(halves));
    }
  }
  for (int d = done; d < dim; ++d) {
    PutElement(type_, keys, d * kTokens + token, key[d]);
    PutElement(type_, values, (d / 16) * 256 + token * 16 + d % 16, value[d]);
  }
}

void KvPages::ReadKeys(const VectorKernels& vector, int layer, int head, std::int32_t page,
                       float* key_tile) const {
  const PageForm& form = layers_[static_cast<size_t>(layer)].form;
  const std::byte* keys = Head(layer, head, page);
  const std::int64_t count = form.key_elements;
  switch (type_) {
    case KvType::kF32:
      std::memcpy(key_tile, keys, static_cast<size_t>(count) * 4);
      break;
    case KvType::kF16:
      vector.f16_to_float(reinterpret_cast<const std::uint16_t*>(keys), count, key_tile);
      break;
    case KvType::kBF16:
      vector.bf16_to_float(reinterpret_cast<const std::uint16_t*>(keys), count, key_tile);
      break;
    case KvType::kQ8: {
      float scales[kTokens];
      std::memcpy(scales, keys + count + form.value_elements, sizeof(scales));
      vector.codes_to_float_by_lane(reinterpret_cast<const std::int8_t*>(keys), scales, count,
                                    key_tile);
      break;
    }
  }
}

void KvPages::ReadValues(const VectorKernels& vector, int layer, int head, std::int32_t page,
                         float* value_blocks, std::int64_t block_stride) const {
  const PageForm& form = layers_[static_cast<size_t>(layer)].form;
  const std::byte* keys = Head(layer, head, page);
  const std::byte* values = keys + form.value_offset();
  constexpr int kBlock = kTokens * 16;
  for (int block = 0; block < padded_dim(layer) / 16; ++block) {
    float* out = value_blocks + block * block_stride;
    switch (type_) {
      case KvType::kF32:
        std::memcpy(out, values + block * kBlock * 4, kBlock * 4);
        break;
      case KvType::kF16:
        vector.f16_to_float(reinterpret_cast<const std::uint16_t*>(values) + block * kBlock, kBlock,
                            out);
        break;
      case KvType::kBF16:
        vector.bf16_to_float(reinterpret_cast<const std::uint16_t*>(values) + block * kBlock,
                             kBlock, out);
        break;
      case KvType::kQ8: {
        float scales[kTokens];
        std::memcpy(scales, values + form.value_elements + 4 * kTokens, sizeof(scales));
        const auto* codes = reinterpret_cast<const std::int8_t*>(values) + block * kBlock;
        for (int i = 0; i < kBlock; ++i) out[i] = static_cast<float>(codes[i]) * scales[i / 16];
        break;
      }
    }
  }
}

}  // namespace banyan
