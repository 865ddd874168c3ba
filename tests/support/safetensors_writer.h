// Writes safetensors bytes for fixtures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace banyan::testing_support {

// A file of any header and data: for broken files too.
inline std::string SafetensorsBytes(std::string_view header, std::string_view data) {
  const std::uint64_t size = header.size();
  char length[sizeof(size)];
  std::memcpy(length, &size, sizeof(size));
  return std::string(length, sizeof(size)) + std::string(header) + std::string(data);
}

class SafetensorsWriter {
 public:
  // `type`: "F32", "F16", "BF16" or any other name; `shape` outermost first.
  void Tensor(std::string_view name, std::string_view type, std::span<const std::int64_t> shape,
              std::span<const std::byte> bytes) {
    header_ += header_.empty() ? "{\"" : ",\"";
    header_ += std::string(name) + "\":{\"dtype\":\"" + std::string(type) + "\",\"shape\":[";
    for (size_t i = 0; i < shape.size(); ++i) {
      header_ += (i == 0 ? "" : ",") + std::to_string(shape[i]);
    }
    header_ += "],\"data_offsets\":[" + std::to_string(data_.size()) + ",";
    data_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    header_ += std::to_string(data_.size()) + "]}";
  }

  void TensorF32(std::string_view name, std::span<const std::int64_t> shape,
                 std::span<const float> values) {
    Tensor(name, "F32", shape, std::as_bytes(values));
  }

  std::string Bytes() const {
    return SafetensorsBytes(header_.empty() ? "{}" : header_ + "}", data_);
  }

  void Write(const std::filesystem::path& path) const {
    const std::string bytes = Bytes();
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<long>(bytes.size()));
  }

 private:
  std::string header_, data_;
};

}  // namespace banyan::testing_support
