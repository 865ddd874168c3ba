// float8 e4m3 (the "fn" form of checkpoints) → float32, exactly: sign, 4 bits of exponent with bias
// 7, 3 of mantissa; no infinities, and NaN is all ones but the sign.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace banyan {

inline bool E4M3IsNaN(std::uint8_t code) { return (code & 0x7fu) == 0x7fu; }

inline float E4M3ToFloat(std::uint8_t code) {
  if (E4M3IsNaN(code)) return std::numeric_limits<float>::quiet_NaN();
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80u) << 24;
  const std::uint32_t exponent = (code >> 3) & 15u, mantissa = code & 7u;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-9
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 120u) << 23) | (mantissa << 20));
}

}  // namespace banyan
