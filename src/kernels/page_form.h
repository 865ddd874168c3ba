// KV pages as bytes, to keep them outside a backend's memory: one form for all backends,
// little-endian, in which every element has the bits that the backend keeps.
//
// Bytes of several pages are [layers, pages, kv_heads, head_bytes]. A head's bytes in one page:
//   keys    [head_dim, 16 tokens]
//   values  [ceil(head_dim / 16), 16 tokens, 16 values], zeros where the head has no such value
//   scales  [2, 16 tokens] float32 of keys, then of values; kQ8 only, whose codes are those of
//           Hadamard-transformed heads (hadamard.h)
// and zeros up to a multiple of 64. (It is how the cpu backend keeps them, so there a page is a
// copy.) docs/kv-store.md promises this form to others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kernels.h"

namespace banyan {

struct PageForm {
  KvShape shape;
  KvType type = KvType::kF32;
  std::int64_t element_bytes = 0;
  std::int64_t key_elements = 0, value_elements = 0;  // of one head in one page
  std::int64_t head_bytes = 0;

  std::int64_t layer_bytes() const { return head_bytes * shape.kv_heads; }  // of one page
  std::int64_t page_bytes() const { return layer_bytes() * shape.layers; }  // of all layers
  std::int64_t value_offset() const { return key_elements * element_bytes; }
  std::int64_t scale_offset() const { return value_offset() + value_elements * element_bytes; }
  // Indices of elements among a head's keys or values in a page.
  static std::int64_t KeyIndex(int token, int d) { return std::int64_t{d} * kPageTokens + token; }
  static std::int64_t ValueIndex(int token, int d) {
    return std::int64_t{d / 16} * 16 * kPageTokens + token * 16 + d % 16;
  }
};

// REQUIRES: layers that are alike.
PageForm FormOf(const KvShape& shape, KvType type);
// The form of one layer, as if there were no others.
PageForm FormOfLayer(const KvShape& shape, int layer, KvType type);

// Zeroes the last page's tokens from `token` on, which hold no valid data.
// `bytes` are [layers, pages, kv_heads, head_bytes].
void ClearTokensFrom(const PageForm& form, int pages, int token, std::span<std::byte> bytes);

// The squares of what was kept and of what was lost.
struct RoundingLoss {
  double key_squares = 0.0, key_error = 0.0;
  double value_squares = 0.0, value_error = 0.0;

  RoundingLoss& operator+=(const RoundingLoss& other);
  // Root mean square of the error over that of the elements.
  double OfKeys() const;
  double OfValues() const;
};

// Converts pages to another type, element by element; to kQ8 after the Hadamard transform, with a
// scale for each token and head that makes the largest magnitude 127. `out` has the size of the
// same pages in form `to`. Returns the rounding loss. REQUIRES: equal shapes.
RoundingLoss ConvertPages(const PageForm& from, std::span<const std::byte> bytes,
                          const PageForm& to, std::span<std::byte> out);

// One head of one token as floats: keys and values, head_dim each. `head` are a head's bytes.
void ReadToken(const PageForm& form, const std::byte* head, int token, std::span<float> keys,
               std::span<float> values);

}  // namespace banyan
