#include "tensor/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "tensor/dtype.h"
#include "tensor/float16.h"

namespace banyan {

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
