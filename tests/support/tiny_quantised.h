// Tiny quantised models for tests: FP8 and INT8 checkpoints with scales, and the same weights as
// float32 and rounded to bf16; a gpt-oss with MXFP4 experts, and the same numbers as plain values.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/safetensors_writer.h"
#include "support/tiny_model.h"
#include "tensor/narrow_floats.h"

namespace banyan::testing_support {

// One scale for a matrix, a row or a block; the last has numbers for codes, the others e4m3.
enum class TinyScales { kOfMatrix, kOfRow, kOfBlock, kOfRowInt8 };
inline constexpr std::int64_t kTinyBlockRows = 32, kTinyBlockColumns = 16;

struct TinyScaled {
  std::filesystem::path codes, f32, bf16;  // directories
};

// By the definition: sign, exponent with bias 7, three bits of mantissa.
inline float PlainE4M3(int code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa / 8.0, -6)
                                         : std::ldexp(1.0 + mantissa / 8.0, exponent - 7);
  return static_cast<float>((code & 128) != 0 ? -magnitude : magnitude);
}

inline std::string TinyQuantizationJson(TinyScales scales) {
  if (scales == TinyScales::kOfBlock) {
    return R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [)" +
           std::to_string(kTinyBlockRows) + ", " + std::to_string(kTinyBlockColumns) +
           R"(], "modules_to_not_convert": ["lm_head"]})";
  }
  const bool numbers = scales == TinyScales::kOfRowInt8;
  return std::string(
             R"({"quant_method": "compressed-tensors", "ignore": ["lm_head"], "format": ")") +
         (numbers ? "int" : "float") + R"(-quantized", "config_groups": {"group_0": {
 "targets": ["Linear"], "input_activations": {"num_bits": 8, "dynamic": true}, "weights": {
 "num_bits": 8, "symmetric": true, "type": ")" +
         (numbers ? "int" : "float") + R"(", "strategy": ")" +
         (scales == TinyScales::kOfMatrix ? "tensor" : "channel") + R"("}}}})";
}

// Every matrix of a layer's products; embedding, logits and routers stay plain.
inline TinyScaled WriteTinyScaled(const TinyShape& shape, TinyScales scales,
                                  const std::filesystem::path& directory) {
  const TinyScaled written{directory / "codes", directory / "f32", directory / "bf16"};
  SafetensorsWriter codes_file, f32_file, bf16_file;
  std::mt19937 random(shape.seed);
  const auto uniform = [&] { return static_cast<float>(random() * 0x1p-32); };
  const bool numbers = scales == TinyScales::kOfRowInt8, blocks = scales == TinyScales::kOfBlock;
  const TinyWeights weights(shape);
  for (const TinyTensor& tensor : weights.tensors()) {
    if (tensor.hf_name.empty()) continue;
    if (!tensor.hf_name.ends_with("_proj.weight")) {
      for (SafetensorsWriter* file : {&codes_file, &f32_file, &bf16_file}) {
        file->TensorF32(tensor.hf_name, tensor.shape, tensor.values);
      }
      continue;
    }
    const std::int64_t rows = tensor.shape[0], columns = tensor.shape[1];
    const std::int64_t down = blocks ? kTinyBlockRows : scales == TinyScales::kOfMatrix ? rows : 1;
    const std::int64_t across = blocks ? kTinyBlockColumns : columns;
    const std::vector<std::int64_t> scale_shape = {(rows + down - 1) / down,
                                                   (columns + across - 1) / across};
    std::vector<float> factors(static_cast<size_t>(scale_shape[0] * scale_shape[1]));
    const float spread = (numbers ? 0.02f : 1.0f) / std::sqrt(static_cast<float>(columns));
    for (float& factor : factors) factor = spread * (0.5f + uniform());
    std::vector<std::byte> codes;
    std::vector<float> values;
    std::vector<std::uint16_t> halves;
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      // Magnitudes up to 4 and subnormal ones; numbers of all sizes.
      const auto code = static_cast<int>(random() % (numbers ? 256 : 72) +
                                         (numbers || random() % 2 == 0 ? 0 : 128));
      codes.push_back(static_cast<std::byte>(code));
      const float number =
          numbers ? static_cast<float>(static_cast<std::int8_t>(code)) : PlainE4M3(code);
      const std::int64_t at = i / columns / down * scale_shape[1] + i % columns / across;
      values.push_back(number * factors[static_cast<size_t>(at)]);
      halves.push_back(FloatToBF16(values.back()));
    }
    codes_file.Tensor(tensor.hf_name, numbers ? "I8" : "F8_E4M3", tensor.shape, codes);
    const std::string scales_name = tensor.hf_name + (blocks ? "_scale_inv" : "_scale");
    codes_file.TensorF32(scales_name, scale_shape, factors);
    f32_file.TensorF32(tensor.hf_name, tensor.shape, values);
    bf16_file.Tensor(tensor.hf_name, "BF16", tensor.shape, std::as_bytes(std::span(halves)));
  }
  for (const auto& [folder, file] :
       {std::pair(written.codes, &codes_file), std::pair(written.f32, &f32_file),
        std::pair(written.bf16, &bf16_file)}) {
    std::filesystem::create_directories(folder);
    std::string config = TinyConfigJson(shape);
    if (file == &codes_file) {
      config.insert(1, "\"quantization_config\":" + TinyQuantizationJson(scales) + ",");
    }
    std::ofstream(folder / "config.json") << config;
    file->Write(folder / "model.safetensors");
  }
  return written;
}

// --- MXFP4: experts are blocks and scales, as in real safetensors.

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
