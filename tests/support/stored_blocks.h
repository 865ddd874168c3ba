// Random tensors as quantisers store them, for GGUF files.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/gguf_writer.h"
#include "tensor/narrow_floats.h"
#include "tensor/quantization.h"

namespace banyan::testing_support {

// What a type is called in a file, and where a block has 16-bit scales.
struct GgufType {
  DType type;
  std::uint32_t number;
  std::vector<size_t> scales = {};
};

inline const std::vector<GgufType>& GgufTypes() {
  static const std::vector<GgufType> types = {
      {DType::kF32, 0},           {DType::kF16, 1, {0}},      {DType::kBF16, 30},
      {DType::kQ4_0, 2, {0}},     {DType::kQ4_1, 3, {0, 2}},  {DType::kQ5_0, 6, {0}},
      {DType::kQ5_1, 7, {0, 2}},  {DType::kQ8_0, 8, {0}},     {DType::kQ2_K, 10, {80, 82}},
      {DType::kQ3_K, 11, {108}},  {DType::kQ4_K, 12, {0, 2}}, {DType::kQ5_K, 13, {0, 2}},
      {DType::kQ6_K, 14, {208}},  {DType::kIQ2_XXS, 16, {0}}, {DType::kIQ2_XS, 17, {0}},
      {DType::kIQ3_XXS, 18, {0}}, {DType::kIQ1_S, 19, {0}},   {DType::kIQ4_NL, 20, {0}},
      {DType::kIQ3_S, 21, {0}},   {DType::kIQ2_S, 22, {0}},   {DType::kIQ4_XS, 23, {0}},
      {DType::kIQ1_M, 29},        {DType::kTQ1_0, 34, {52}},  {DType::kTQ2_0, 35, {64}},
      {DType::kMXFP4, 39},
  };
  return types;
}

inline const GgufType& GgufTypeOf(DType type) {
  for (const GgufType& known : GgufTypes()) {
    if (known.type == type) return known;
  }
  return GgufTypes().front();
}

// As quantisers do it.
inline DType FittingType(DType type, std::int64_t columns) {
  if (columns % TraitsOf(type).block == 0) return type;
  if (columns % 32 != 0) return DType::kF16;
  switch (type) {
    case DType::kQ5_K:
      return DType::kQ5_1;
    case DType::kQ6_K:
      return DType::kQ8_0;
    case DType::kQ4_K:
      return DType::kQ5_0;
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kTQ1_0:
    case DType::kTQ2_0:
      return DType::kQ4_0;
    default:
      return DType::kIQ4_NL;
  }
}

inline void Put16(std::vector<std::byte>& bytes, size_t at, std::uint16_t value) {
  bytes[at] = static_cast<std::byte>(value & 0xff);
  bytes[at + 1] = static_cast<std::byte>(value >> 8);
}
inline void Put32(std::vector<std::byte>& bytes, size_t at, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  Put16(bytes, at, static_cast<std::uint16_t>(bits));
  Put16(bytes, at + 2, static_cast<std::uint16_t>(bits >> 16));
}

struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  DType type = DType::kF32;
  std::vector<std::byte> bytes;
  size_t count = 0;
};

// Scales such that values are about `size`.
inline void ScaleBlocks(StoredTensor& stored, float size) {
  const std::vector<size_t>& scales = GgufTypeOf(stored.type).scales;
  if (scales.empty() || stored.type == DType::kF16) return;
  const auto block = static_cast<size_t>(TraitsOf(stored.type).bytes);
  std::vector<float> values(stored.count);
  float unit = 0.01f;
  for (int round = 0; round < 2; ++round) {  // with any unit, then with the one that is right
    for (size_t at = 0; at < stored.bytes.size(); at += block) {
      for (const size_t scale : scales) Put16(stored.bytes, at + scale, FloatToF16(unit));
      // What is added to codes that are not below 0.
      if (stored.type == DType::kQ4_1) Put16(stored.bytes, at + 2, FloatToF16(-7.5f * unit));
      if (stored.type == DType::kQ5_1) Put16(stored.bytes, at + 2, FloatToF16(-15.5f * unit));
    }
    Dequantize(stored.type, stored.bytes, values);
    double sum = 0.0;
    for (const float value : values) sum += double{value} * value;
    unit *= size / static_cast<float>(std::sqrt(sum / static_cast<double>(values.size())));
  }
}

// Random codes; values are about `size`.
inline StoredTensor RandomBlocks(const std::string& name, std::vector<std::int64_t> shape,
                                 DType type, float size, std::mt19937& random) {
  StoredTensor stored{name, std::move(shape), type, {}, 1};
  for (const std::int64_t extent : stored.shape) stored.count *= static_cast<size_t>(extent);
  const DTypeTraits& traits = TraitsOf(type);
  const auto block = static_cast<size_t>(traits.bytes);
  std::vector<std::byte>& bytes = stored.bytes;
  bytes.resize(stored.count / static_cast<size_t>(traits.block) * block);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 24);
  for (size_t at = 0; at < bytes.size(); at += block) {
    const float value = size * (3.4f * static_cast<float>(random() * 0x1p-32) - 1.7f);
    if (type == DType::kF32) Put32(bytes, at, value);
    if (type == DType::kF16) Put16(bytes, at, FloatToF16(value));
    if (type == DType::kBF16) Put16(bytes, at, FloatToBF16(value));
    if (type == DType::kIQ1_M)
      bytes[at + 55] = (bytes[at + 55] & std::byte{0x8f}) | std::byte{0x20};
    if (type == DType::kMXFP4) bytes[at] = static_cast<std::byte>(118 + random() % 4);
  }
  ScaleBlocks(stored, size);
  return stored;
}

// The tensor as it is, or its values as float32.
inline void WriteStored(const StoredTensor& tensor, bool values, GgufWriter& writer) {
  if (!values) {
    return writer.Tensor(tensor.name, tensor.shape, GgufTypeOf(tensor.type).number, tensor.bytes);
  }
  std::vector<float> floats(tensor.count);
  Dequantize(tensor.type, tensor.bytes, floats);
  writer.TensorF32(tensor.name, tensor.shape, floats);
}

// Most matrices, and those that quantisers keep in a larger type.
struct StoredMix {
  DType usual = DType::kQ4_K, better = DType::kQ6_K;
};

}  // namespace banyan::testing_support
