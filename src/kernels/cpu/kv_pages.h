// KV memory of the cpu backend. Within a page, a head's keys are one tile [head_dim, 16 tokens] and
// its values are tiles [head_dim / 16, 16 tokens, 16], so that attention over a span is the same
// panel product as a matrix product.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cpu/loops/vector_kernels.h"
#include "kernels/kernels.h"
#include "kernels/page_form.h"

namespace banyan {

class KvPages : public KvMemory {
 public:
  KvPages(const KvShape& shape, int pages, KvType type);

  // Bytes of one page over all layers.
  static std::int64_t PageBytes(const KvShape& shape, KvType type);

  void Copy(const PageCopy& copy);
  // Copies one page of all layers to or from page form (page_form.h), as page `index` of `count`.
  struct Place {
    std::int64_t index = 0, count = 0;
  };
  void Read(std::int32_t page, const Place& place, std::span<std::byte> bytes) const;
  void Write(std::int32_t page, const Place& place, std::span<const std::byte> bytes);

  // Whether stored keys and values are Hadamard-rotated (hadamard.h); the caller of Store does it.
  bool hadamard() const { return type_ == KvType::kQ8; }
  // Stores one token's key and value of one head (head_dim floats each).
  void Store(const VectorKernels& vector, int layer, int head, std::int32_t slot, const float* key,
             const float* value);

  // As they are stored, for products that convert while they read; not for kQ8. Keys of a page are
  // one panel [head_dim, 16]. Values from `token` on are panels [16 - token, 16], 256 elements
  // apart.
  KvType panel_type() const { return type_; }
  const void* Keys(int layer, int head, std::int32_t page) const { return Head(layer, head, page); }
  const void* Values(int layer, int head, std::int32_t page, int token) const;

  // Copies a page's keys and values of one head out as float32. `key_tile` gets [head_dim, 16];
  // value block b goes to value_blocks + b * block_stride as [16, 16].
  void ReadKeys(const VectorKernels& vector, int layer, int head, std::int32_t page,
                float* key_tile) const;
  void ReadValues(const VectorKernels& vector, int layer, int head, std::int32_t page,
                  float* value_blocks, std::int64_t block_stride) const;

  // The head's values rounded up to 16.
  int padded_dim(int layer) const { return layers_[static_cast<size_t>(layer)].padded_dim; }

 private:
  std::byte* Head(int layer, int head, std::int32_t page);
  const std::byte* Head(int layer, int head, std::int32_t page) const;

  struct Layer {
    PageForm form;  // of this layer alone
    int padded_dim = 0;
    std::int64_t page_offset = 0;  // bytes of the layers before it in one page
  };

  KvType type_;
  std::vector<Layer> layers_;
  // [layers, pages, kv_heads, head_bytes], zeroed; the system commits memory at the first touch.
  std::unique_ptr<std::byte, void (*)(void*)> bytes_;
};

}  // namespace banyan
