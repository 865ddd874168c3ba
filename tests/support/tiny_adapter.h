// Random LoRA adapters for tests, written as PEFT does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "support/safetensors_writer.h"

namespace banyan::testing_support {

// A module that gets a product: weights [out, in].
struct TinyModule {
  std::string name;  // "model.layers.0.self_attn.q_proj"
  std::int64_t out = 0, in = 0;
  std::int64_t rank = 2;
  bool embedding = false;   // saved as lora_embedding_A and lora_embedding_B
  std::vector<float> a, b;  // [rank, in], [out, rank]; of an embedding in and out change places

  // Row `row`, column `column` of B A, transposed for an embedding.
  double Product(std::int64_t row, std::int64_t column) const {
    if (embedding) std::swap(row, column);
    const std::int64_t columns = embedding ? out : in;
    double sum = 0.0;
    for (std::int64_t k = 0; k < rank; ++k) {
      sum += static_cast<double>(b[static_cast<size_t>(row * rank + k)]) *
             a[static_cast<size_t>(k * columns + column)];
    }
    return sum;
  }
};

// With values of about 1 in A and 0.2 in B; the numbers are the same on every platform.
inline TinyModule RandomModule(std::string name, std::int64_t out, std::int64_t in,
                               std::int64_t rank = 2, bool embedding = false) {
  TinyModule module{std::move(name), out, in, rank, embedding, {}, {}};
  std::mt19937 random(static_cast<std::uint32_t>(module.name.size() + 31 * module.name.back()));
  const auto fill = [&](std::vector<float>& values, std::int64_t size, double spread) {
    for (std::int64_t i = 0; i < size; ++i) {
      values.push_back(static_cast<float>((random() * 0x1p-31 - 1.0) * spread));
    }
  };
  fill(module.a, rank * (embedding ? out : in), 1.0);
  fill(module.b, (embedding ? in : out) * rank, 0.2);
  return module;
}

inline std::string LoraConfig(const std::string& fields) {
  return "{\"peft_type\":\"LORA\",\"bias\":\"none\"," + fields + "}";
}

inline SafetensorsWriter TinyAdapterTensors(const std::vector<TinyModule>& modules) {
  SafetensorsWriter writer;
  for (const TinyModule& module : modules) {
    const std::string name = "base_model.model." + module.name;
    const std::int64_t in = module.embedding ? module.out : module.in;
    const std::int64_t out = module.embedding ? module.in : module.out;
    writer.TensorF32(name + (module.embedding ? ".lora_embedding_A" : ".lora_A.weight"),
                     std::vector<std::int64_t>{module.rank, in}, module.a);
    writer.TensorF32(name + (module.embedding ? ".lora_embedding_B" : ".lora_B.weight"),
                     std::vector<std::int64_t>{out, module.rank}, module.b);
  }
  return writer;
}

inline std::filesystem::path WriteTinyAdapter(const std::string& config,
                                              const std::vector<TinyModule>& modules,
                                              const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "adapter_config.json") << config;
  TinyAdapterTensors(modules).Write(directory / "adapter_model.safetensors");
  return directory;
}

}  // namespace banyan::testing_support
