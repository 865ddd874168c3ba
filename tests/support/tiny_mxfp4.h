// A tiny gpt-oss whose experts are blocks and scales, as real safetensors have them, and the same
// numbers as plain values.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "support/safetensors_writer.h"
#include "support/tiny_model.h"

namespace banyan::testing_support {

struct TinyMxfp4 {
  std::filesystem::path blocks, plain;  // directories
};

// REQUIRES: hidden and ffn are multiples of 32.
inline TinyMxfp4 WriteTinyMxfp4(const TinyShape& shape, const std::filesystem::path& directory) {
  static constexpr float kFloats[16] = {0, 0.5,  1,  1.5,  2,  3,  4,  6,
                                        0, -0.5, -1, -1.5, -2, -3, -4, -6};
  const TinyMxfp4 written{directory / "blocks", directory / "plain"};
  SafetensorsWriter blocks_file, plain_file;
  std::mt19937 random(shape.seed);
  const TinyWeights weights(shape);
  for (const TinyTensor& tensor : weights.tensors()) {
    if (tensor.hf_name.empty()) continue;
    const bool product = tensor.hf_name.ends_with("_proj") && tensor.shape.size() == 3;
    if (!product) {
      blocks_file.TensorF32(tensor.hf_name, tensor.shape, tensor.values);
      plain_file.TensorF32(tensor.hf_name, tensor.shape, tensor.values);
      continue;
    }
    // [experts, columns, rows] as values, [experts, rows, columns / 32] as blocks.
    const std::int64_t experts = tensor.shape[0], columns = tensor.shape[1], rows = tensor.shape[2];
    std::vector<float> values(tensor.values.size());
    std::vector<std::byte> blocks, scales;
    for (std::int64_t row = 0; row < experts * rows; ++row) {
      for (std::int64_t column = 0; column < columns; column += 2) {
        if (column % 32 == 0) scales.push_back(static_cast<std::byte>(122 + random() % 4));
        const auto pair = static_cast<std::uint8_t>(random());
        blocks.push_back(static_cast<std::byte>(pair));
        const int exponent = static_cast<int>(scales.back()) - 127;
        const std::int64_t at = (row / rows * columns + column) * rows + row % rows;
        values[static_cast<size_t>(at)] = std::ldexp(kFloats[pair & 15], exponent);
        values[static_cast<size_t>(at + rows)] = std::ldexp(kFloats[pair >> 4], exponent);
      }
    }
    plain_file.TensorF32(tensor.hf_name, tensor.shape, values);
    const std::vector<std::int64_t> scale_shape = {experts, rows, columns / 32};
    std::vector<std::int64_t> block_shape = scale_shape;
    block_shape.push_back(16);
    blocks_file.Tensor(tensor.hf_name + "_blocks", "U8", block_shape, blocks);
    blocks_file.Tensor(tensor.hf_name + "_scales", "U8", scale_shape, scales);
  }
  for (const auto& [folder, file] :
       {std::pair(written.blocks, &blocks_file), std::pair(written.plain, &plain_file)}) {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << TinyConfigJson(shape);
    file->Write(folder / "model.safetensors");
  }
  return written;
}

}  // namespace banyan::testing_support
