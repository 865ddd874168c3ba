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
  return FormOf(shape, type).page_bytes();
}

KvPages::KvPages(const KvShape& shape, int page_count, KvType type)
    : shape_(shape), type_(type), form_(FormOf(shape, type)), bytes_(nullptr, std::free) {
  pages = page_count;
  padded_dim_ = (shape.head_dim + 15) / 16 * 16;
  const std::int64_t bytes = PageBytes(shape, type) * page_count;
  bytes_.reset(static_cast<std::byte*>(std::calloc(1, static_cast<size_t>(bytes))));
  if (bytes_ == nullptr) {
    Throw(ErrorKind::kLimit, "no memory for {} KV pages ({} MiB)", page_count, bytes >> 20);
  }
}

std::byte* KvPages::Head(int layer, int head, std::int32_t page) {
  return const_cast<std::byte*>(static_cast<const KvPages*>(this)->Head(layer, head, page));
}

const std::byte* KvPages::Head(int layer, int head, std::int32_t page) const {
  const std::int64_t index =
      (static_cast<std::int64_t>(layer) * pages + page) * shape_.kv_heads + head;
  return bytes_.get() + index * form_.head_bytes;
}

void KvPages::Copy(const PageCopy& copy) {
  for (int layer = 0; layer < shape_.layers; ++layer) {
    std::memcpy(Head(layer, 0, copy.to), Head(layer, 0, copy.from),
                static_cast<size_t>(form_.layer_bytes()));
  }
}

// The memory is in page form already.
void KvPages::Read(std::int32_t page, const Place& place, std::span<std::byte> bytes) const {
  const std::int64_t layer_bytes = form_.layer_bytes();
  BANYAN_CHECK(static_cast<std::int64_t>(bytes.size()) ==
               layer_bytes * shape_.layers * place.count);
  for (int layer = 0; layer < shape_.layers; ++layer) {
    std::memcpy(bytes.data() + (layer * place.count + place.index) * layer_bytes,
                Head(layer, 0, page), static_cast<size_t>(layer_bytes));
  }
}

void KvPages::Write(std::int32_t page, const Place& place, std::span<const std::byte> bytes) {
  const std::int64_t layer_bytes = form_.layer_bytes();
  BANYAN_CHECK(static_cast<std::int64_t>(bytes.size()) ==
               layer_bytes * shape_.layers * place.count);
  for (int layer = 0; layer < shape_.layers; ++layer) {
    std::memcpy(Head(layer, 0, page),
                bytes.data() + (layer * place.count + place.index) * layer_bytes,
                static_cast<size_t>(layer_bytes));
  }
}

const void* KvPages::Values(int layer, int head, std::int32_t page, int token) const {
  const std::int64_t at = form_.key_elements + token * 16;
  return Head(layer, head, page) + at * form_.element_bytes;
}

void KvPages::Store(const VectorKernels& vector, int layer, int head, std::int32_t slot,
                    const float* key, const float* value) {
  const int token = slot % kTokens;
  std::byte* keys = Head(layer, head, slot / kTokens);
  std::byte* values = keys + form_.value_offset();
  if (type_ == KvType::kQ8) {
    std::byte* scales = values + form_.value_elements;
    const float key_scale = HeadScale(key, shape_.head_dim);
    const float value_scale = HeadScale(value, shape_.head_dim);
    std::memcpy(scales + 4 * token, &key_scale, 4);
    std::memcpy(scales + 4 * (kTokens + token), &value_scale, 4);
    for (int d = 0; d < shape_.head_dim; ++d) {
      keys[d * kTokens + token] = static_cast<std::byte>(Code(key[d], key_scale));
      values[(d / 16) * 256 + token * 16 + d % 16] =
          static_cast<std::byte>(Code(value[d], value_scale));
    }
    return;
  }
  int done = 0;
  if (type_ != KvType::kF32) {
    const auto convert = type_ == KvType::kF16 ? vector.float_to_f16 : vector.float_to_bf16;
    for (; done + 16 <= shape_.head_dim; done += 16) {
      std::uint16_t halves[16];
      convert(key + done, 16, halves);
      for (int i = 0; i < 16; ++i) {
        std::memcpy(keys + 2 * ((done + i) * kTokens + token), &halves[i], 2);
      }
      convert(value + done, 16, halves);
      std::memcpy(values + 2 * (done * kTokens + token * 16), halves, sizeof(halves));
    }
  }
  for (int d = done; d < shape_.head_dim; ++d) {
    PutElement(type_, keys, d * kTokens + token, key[d]);
    PutElement(type_, values, (d / 16) * 256 + token * 16 + d % 16, value[d]);
  }
}

void KvPages::ReadKeys(const VectorKernels& vector, int layer, int head, std::int32_t page,
                       float* key_tile) const {
  const std::byte* keys = Head(layer, head, page);
  const std::int64_t count = form_.key_elements;
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
      std::memcpy(scales, keys + count + form_.value_elements, sizeof(scales));
      vector.codes_to_float_by_lane(reinterpret_cast<const std::int8_t*>(keys), scales, count,
                                    key_tile);
      break;
    }
  }
}

void KvPages::ReadValues(const VectorKernels& vector, int layer, int head, std::int32_t page,
                         float* value_blocks, std::int64_t block_stride) const {
  const std::byte* keys = Head(layer, head, page);
  const std::byte* values = keys + form_.value_offset();
  constexpr int kBlock = kTokens * 16;
  for (int block = 0; block < padded_dim_ / 16; ++block) {
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
        std::memcpy(scales, values + form_.value_elements + 4 * kTokens, sizeof(scales));
        const auto* codes = reinterpret_cast<const std::int8_t*>(values) + block * kBlock;
        for (int i = 0; i < kBlock; ++i) out[i] = static_cast<float>(codes[i]) * scales[i / 16];
        break;
      }
    }
  }
}

}  // namespace banyan
