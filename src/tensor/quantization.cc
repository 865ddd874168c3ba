// Values from the codes, scales and minima of a block (block_codes.h), and Q8_0 from values.
#include "tensor/quantization.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "tensor/block_codes.h"
#include "tensor/host_tensor.h"
#include "tensor/narrow_floats.h"

namespace banyan {
namespace {

// Null for plain types.
BlockDecoder DecoderOf(DType type) {
  const BlockDecoder decode = NumberDecoderOf(type);
  return decode != nullptr ? decode : BookDecoderOf(type);
}

void DequantizePlain(DType type, std::span<const std::byte> bytes, std::span<float> out) {
  if (type == DType::kF32) {
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return;
  }
  if (NeedsScales(type)) {
    for (size_t i = 0; i < out.size(); ++i) {
      const auto code = static_cast<std::uint8_t>(bytes[i]);
      out[i] = type == DType::kF8_E4M3 ? E4M3ToFloat(code)
                                       : static_cast<float>(static_cast<std::int8_t>(code));
    }
    return;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, sizeof(bits));
    out[i] = type == DType::kF16 ? F16ToFloat(bits) : BF16ToFloat(bits);
  }
}

}  // namespace

QuantizedForm QuantizedFormOf(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8_E4M3:
    case DType::kI8:
      return {};
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0:
    case DType::kQ8_K:
    case DType::kIQ1_S:
    case DType::kIQ2_XXS:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
    case DType::kTQ1_0:
    case DType::kTQ2_0:
    case DType::kMXFP4:
      return {32, false};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {32, true};
    case DType::kQ2_K:
      return {16, true};
    case DType::kQ3_K:
    case DType::kQ6_K:
    case DType::kIQ1_M:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
      return {16, false};
  }
  return {};
}

void DequantizeToCodes(DType type, std::span<const std::byte> bytes, std::span<std::int8_t> codes,
                       std::span<float> scales, std::span<float> minima) {
  const BlockDecoder decode = DecoderOf(type);
  const QuantizedForm form = QuantizedFormOf(type);
  BANYAN_CHECK(decode != nullptr);
  BANYAN_CHECK(bytes.size() == RowBytes(type, static_cast<std::int64_t>(codes.size())));
  const size_t groups = codes.size() / static_cast<size_t>(form.group);
  BANYAN_CHECK(scales.size() == groups && (!form.has_min || minima.size() == groups));
  const DTypeTraits& traits = TraitsOf(type);
  const size_t block = static_cast<size_t>(traits.block);
  const size_t groups_per_block = block / static_cast<size_t>(form.group);
  const auto* source = reinterpret_cast<const std::uint8_t*>(bytes.data());
  for (size_t b = 0; b < codes.size() / block; ++b) {
    const size_t group = b * groups_per_block;
    decode(source + b * static_cast<size_t>(traits.bytes),
           {codes.data() + b * block, scales.data() + group,
            form.has_min ? minima.data() + group : nullptr});
  }
}

void Dequantize(DType type, std::span<const std::byte> bytes, std::span<float> out) {
  BANYAN_CHECK(bytes.size() == RowBytes(type, static_cast<std::int64_t>(out.size())));
  const BlockDecoder decode = DecoderOf(type);
  if (decode == nullptr) return DequantizePlain(type, bytes, out);
  const QuantizedForm form = QuantizedFormOf(type);
  const DTypeTraits& traits = TraitsOf(type);
  const size_t block = static_cast<size_t>(traits.block);
  const size_t group = static_cast<size_t>(form.group);
  const size_t groups = block / group;
  std::array<std::int8_t, kMaxBlock> codes;
  std::array<float, kMaxGroups> scales, minima;
  const auto* source = reinterpret_cast<const std::uint8_t*>(bytes.data());
  for (size_t begin = 0; begin < out.size(); begin += block) {
    decode(source, {codes.data(), scales.data(), minima.data()});
    source += traits.bytes;
    for (size_t g = 0; g < groups; ++g) {
      constexpr size_t kTogether = 16;  // a constant number, so that they go together
      const float scale = scales[g];
      const float least = form.has_min ? minima[g] : 0.0f;
      for (size_t first = g * group; first < (g + 1) * group; first += kTogether) {
        float products[kTogether];
        for (size_t i = 0; i < kTogether; ++i) {
          products[i] = scale * static_cast<float>(codes[first + i]);
        }
        if (form.has_min) {
          for (size_t i = 0; i < kTogether; ++i) products[i] -= least;
        }
        std::memcpy(out.data() + begin + first, products, sizeof(products));
      }
    }
  }
}

bool QuantizeQ8_0(std::span<const float> values, std::span<std::byte> out) {
  constexpr size_t kBlock = 32, kBlockBytes = 2 + kBlock;
  constexpr float kMost = 127.0f;
  BANYAN_CHECK(values.size() % kBlock == 0 &&
               out.size() == RowBytes(DType::kQ8_0, static_cast<std::int64_t>(values.size())));
  for (size_t block = 0; block < values.size() / kBlock; ++block) {
    const std::span<const float> some = values.subspan(block * kBlock, kBlock);
    float largest = 0.0f;
    for (const float value : some) {
      if (!std::isfinite(value)) return false;
      largest = std::max(largest, std::fabs(value));
    }
    const std::uint16_t half = FloatToF16(largest / kMost);
    const float scale = F16ToFloat(half);
    if (!std::isfinite(scale)) return false;
    std::byte* const bytes = out.data() + block * kBlockBytes;
    std::memcpy(bytes, &half, sizeof(half));
    for (size_t i = 0; i < kBlock; ++i) {
      const float code = scale > 0.0f ? std::nearbyint(some[i] / scale) : 0.0f;
      bytes[2 + i] =
          static_cast<std::byte>(static_cast<std::int8_t>(std::clamp(code, -kMost, kMost)));
    }
  }
  return true;
}

}  // namespace banyan
