// Where the code of one weight stands in a panel of 16 outputs (integer_kernels.h).
#pragma once

#include <cstdint>

#include "kernels/cpu/integer_kernels.h"

namespace banyan {

struct CodeLayout {
  int interleave = 4;
  bool nibbles = false;
  int offset = 0;  // added to codes: 128 or less

  std::int64_t PanelBytes(std::int64_t columns) const {
    return columns * kCodeLanes / (nibbles ? 2 : 1);
  }
  void Put(std::uint8_t* panel, std::int64_t column, int lane, std::int8_t code) const {
    std::uint8_t& byte = panel[ByteOf(column, lane)];
    const auto stored = static_cast<std::uint8_t>(code + offset);
    if (!nibbles) {
      byte = stored;
    } else if (IsUpper(column)) {
      byte = static_cast<std::uint8_t>((byte & 15) | (stored << 4));
    } else {
      byte = static_cast<std::uint8_t>((byte & 0xf0) | (stored & 15));
    }
  }
  int Get(const std::uint8_t* panel, std::int64_t column, int lane) const {
    const std::uint8_t byte = panel[ByteOf(column, lane)];
    if (!nibbles) return static_cast<std::int8_t>(byte - offset);
    return (IsUpper(column) ? byte >> 4 : byte & 15) - offset;
  }

 private:
  static constexpr int kCodeLanes = 16;
  static bool IsUpper(std::int64_t column) { return column % kBlockColumns >= kHalfColumns; }
  std::int64_t ByteOf(std::int64_t column, int lane) const {
    const int stored = nibbles ? kHalfColumns : kBlockColumns;  // columns of a block's bytes
    const std::int64_t block = column / kBlockColumns;
    const std::int64_t within = column % stored;
    return block * stored * kCodeLanes + within / interleave * interleave * kCodeLanes +
           static_cast<std::int64_t>(lane) * interleave + within % interleave;
  }
};

}  // namespace banyan
