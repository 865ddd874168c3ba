// Where the codes of weights stand in a panel of 16 outputs (integer_kernels.h).
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/cpu/integer_kernels.h"

namespace banyan {

// 16 codes that nibbles name.
struct CodeBook {
  explicit CodeBook(std::span<const std::int8_t> codes) {
    for (size_t i = 16; i-- > 0;) {  // of equal codes the first place counts
      values[i] = codes[i];
      place[static_cast<std::uint8_t>(codes[i])] = static_cast<std::uint8_t>(i);
    }
  }
  std::array<std::int8_t, 16> values{};
  std::array<std::uint8_t, 256> place{};  // of a code, taken as an unsigned byte
};

struct CodeLayout {
  int interleave = 4;
  bool nibbles = false;
  int offset = 0;                  // added to codes: 128 or less
  const CodeBook* book = nullptr;  // nibbles are places in it; null: they are codes

  std::int64_t PanelBytes(std::int64_t columns) const {
    return columns * kCodeLanes / (nibbles ? 2 : 1);
  }
  // 32 codes of one output, the block-th of its row.
  void PutBlock(std::uint8_t* panel, std::int64_t block, int lane, const std::int8_t* codes) const {
    std::uint8_t stored[kBlockColumns];
    for (int i = 0; i < kBlockColumns; ++i) {
      stored[i] = book != nullptr ? book->place[static_cast<std::uint8_t>(codes[i])]
                                  : static_cast<std::uint8_t>(codes[i] + offset);
    }
    const int columns = nibbles ? kHalfColumns : kBlockColumns;
    if (nibbles) {
      for (int i = 0; i < kHalfColumns; ++i) {
        stored[i] = static_cast<std::uint8_t>((stored[i] & 15) | (stored[kHalfColumns + i] << 4));
      }
    }
    std::uint8_t* out = panel + block * columns * kCodeLanes + lane * interleave;
    for (int i = 0; i < columns; i += interleave) {
      std::memcpy(out + i * kCodeLanes, stored + i, static_cast<size_t>(interleave));
    }
  }
  void GetBlock(const std::uint8_t* panel, std::int64_t block, int lane, std::int8_t* codes) const {
    std::uint8_t stored[kBlockColumns];
    const int columns = nibbles ? kHalfColumns : kBlockColumns;
    const std::uint8_t* in = panel + block * columns * kCodeLanes + lane * interleave;
    for (int i = 0; i < columns; i += interleave) {
      std::memcpy(stored + i, in + i * kCodeLanes, static_cast<size_t>(interleave));
    }
    if (nibbles) {
      for (int i = 0; i < kHalfColumns; ++i) {
        stored[kHalfColumns + i] = stored[i] >> 4;
        stored[i] &= 15;
      }
    }
    for (int i = 0; i < kBlockColumns; ++i) {
      codes[i] =
          book != nullptr ? book->values[stored[i]] : static_cast<std::int8_t>(stored[i] - offset);
    }
  }

 private:
  static constexpr int kCodeLanes = 16;
};

}  // namespace banyan
