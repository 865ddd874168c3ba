// For the operation tests: random weights of every stored type. Tests only.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "kernels/operation_fixture.h"
#include "tensor/narrow_floats.h"
#include "tensor/quantization.h"

namespace banyan::optest {

// Random blocks with scales of ordinary size. `half_offsets` are the f16 fields of a block.
struct BlockLayout {
  DType type;
  std::vector<int> half_offsets;
};

inline const std::vector<BlockLayout>& Layouts() {
  static const std::vector<BlockLayout> layouts = {
      {DType::kF32, {}},      {DType::kF16, {0}},     {DType::kBF16, {}},
      {DType::kQ4_0, {0}},    {DType::kQ4_1, {0, 2}}, {DType::kQ5_0, {0}},
      {DType::kQ5_1, {0, 2}}, {DType::kQ8_0, {0}},    {DType::kQ2_K, {80, 82}},
      {DType::kQ3_K, {108}},  {DType::kQ4_K, {0, 2}}, {DType::kQ5_K, {0, 2}},
      {DType::kQ6_K, {208}},  {DType::kIQ4_NL, {0}},  {DType::kIQ1_S, {0}},
      {DType::kIQ1_M, {}},    {DType::kIQ2_XXS, {0}}, {DType::kIQ2_XS, {0}},
      {DType::kIQ2_S, {0}},   {DType::kIQ3_XXS, {0}}, {DType::kIQ3_S, {0}},
      {DType::kIQ4_XS, {0}},  {DType::kTQ1_0, {52}},  {DType::kTQ2_0, {64}},
      {DType::kMXFP4, {}},    {DType::kQ8_K, {}},
  };
  return layouts;
}

// Weights as a file holds them, and their values.
struct StoredMatrix {
  HostTensor tensor;
  std::vector<std::byte> bytes;
  HostMatrix floats;
};

inline std::unique_ptr<StoredMatrix> RandomStored(const BlockLayout& layout, std::int64_t rows,
                                                  std::int64_t columns, std::uint32_t seed) {
  auto stored = std::make_unique<StoredMatrix>();
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  const auto put_u16 = [&](size_t at, std::uint16_t value) {
    stored->bytes[at] = static_cast<std::byte>(value & 0xff);
    stored->bytes[at + 1] = static_cast<std::byte>(value >> 8);
  };
  stored->bytes.resize(static_cast<size_t>(rows) * RowBytes(layout.type, columns));
  for (std::byte& b : stored->bytes) b = static_cast<std::byte>(generator() & 0xff);
  const size_t block_bytes = static_cast<size_t>(TraitsOf(layout.type).bytes);
  for (size_t at = 0; at < stored->bytes.size(); at += block_bytes) {
    if (layout.type == DType::kF32) {
      const auto bits = std::bit_cast<std::uint32_t>(uniform(generator));
      put_u16(at, static_cast<std::uint16_t>(bits));
      put_u16(at + 2, static_cast<std::uint16_t>(bits >> 16));
    }
    if (layout.type == DType::kBF16) put_u16(at, FloatToBF16(uniform(generator)));
    if (layout.type == DType::kQ8_K) {  // a float32 scale
      const auto bits = std::bit_cast<std::uint32_t>(uniform(generator) * 0.1f);
      put_u16(at, static_cast<std::uint16_t>(bits));
      put_u16(at + 2, static_cast<std::uint16_t>(bits >> 16));
    }
    if (layout.type == DType::kIQ1_M) {  // the scale's highest bits are the last byte's
      stored->bytes[at + 55] = (stored->bytes[at + 55] & std::byte{0x8f}) | std::byte{0x20};
    }
    if (layout.type == DType::kMXFP4) {  // 2^-7 to 1
      stored->bytes[at] = (stored->bytes[at] & std::byte{0x07}) | std::byte{0x78};
    }
    for (const int offset : layout.half_offsets) {
      put_u16(at + static_cast<size_t>(offset), FloatToF16(uniform(generator) * 0.1f));
    }
  }
  stored->floats = ConstantMatrix(rows, columns, 0.0f);
  Dequantize(layout.type, stored->bytes, stored->floats.values);
  stored->tensor = {"weights", layout.type, {rows, columns}, stored->bytes};
  return stored;
}

inline std::shared_ptr<const Matrix> Load(Kernels& kernels, const StoredMatrix& stored) {
  const HostTensor* part = &stored.tensor;
  return kernels.LoadMatrix(std::span(&part, 1), {});
}

}  // namespace banyan::optest
