// Writes GGUF bytes for fixtures: metadata in the order given, tensors aligned. It writes what it
// is told, valid or not, so that tests can also make broken files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace banyan::testing_support {

class GgufWriter {
 public:
  explicit GgufWriter(std::uint32_t version = 3) : version_(version) {}

  void U32(std::string_view key, std::uint32_t value) { Scalar(key, 4, value); }
  void I32(std::string_view key, std::int32_t value) { Scalar(key, 5, value); }
  void F32(std::string_view key, float value) { Scalar(key, 6, value); }
  void Bool(std::string_view key, bool value) { Scalar(key, 7, static_cast<std::uint8_t>(value)); }
  void U64(std::string_view key, std::uint64_t value) { Scalar(key, 10, value); }
  // Any scalar type by its number in the format.
  template <typename T>
  void Scalar(std::string_view key, std::uint32_t type, T value) {
    Key(key, type);
    Put(metadata_, value);
  }

  void String(std::string_view key, std::string_view value) {
    Key(key, 8);
    PutString(metadata_, value);
  }

  void Strings(std::string_view key, std::span<const std::string> values) {
    ArrayHeader(key, 8, values.size());
    for (const std::string& value : values) PutString(metadata_, value);
  }

  // `type` is the number of T in the format: 4 for uint32, 5 for int32, 6 for float32.
  template <typename T>
  void Array(std::string_view key, std::uint32_t type, std::span<const T> values) {
    ArrayHeader(key, type, values.size());
    for (const T& value : values) Put(metadata_, value);
  }

  // Raw bytes of a value whose type was announced: for odd and broken files.
  void Raw(std::string_view key, std::uint32_t type, std::string_view bytes) {
    Key(key, type);
    metadata_ += bytes;
  }

  // `shape` outermost first; `type` is the format's number: 0 F32, 1 F16, 8 Q8_0, 30 BF16, …
  void Tensor(std::string_view name, std::span<const std::int64_t> shape, std::uint32_t type,
              std::span<const std::byte> bytes) {
    data_.resize((data_.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
    PutString(tensors_, name);
    Put(tensors_, static_cast<std::uint32_t>(shape.size()));
    for (size_t i = shape.size(); i-- > 0;) Put(tensors_, static_cast<std::uint64_t>(shape[i]));
    Put(tensors_, type);
    Put(tensors_, static_cast<std::uint64_t>(data_.size()));
    data_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    ++tensor_count_;
  }

  void TensorF32(std::string_view name, std::span<const std::int64_t> shape,
                 std::span<const float> values) {
    Tensor(name, shape, 0, std::as_bytes(values));
  }

  std::string Bytes() const {
    std::string file = "GGUF";
    Put(file, version_);
    Put(file, tensor_count_);
    Put(file, value_count_);
    file += metadata_;
    file += tensors_;
    if (tensor_count_ > 0) {
      file.resize((file.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
      file += data_;
    }
    return file;
  }

  void Write(const std::filesystem::path& path) const {
    const std::string bytes = Bytes();
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<long>(bytes.size()));
  }

 private:
  static constexpr size_t kAlignment = 32;

  template <typename T>
  static void Put(std::string& out, const T& value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out.append(bytes, sizeof(T));
  }

  static void PutString(std::string& out, std::string_view text) {
    Put(out, static_cast<std::uint64_t>(text.size()));
    out += text;
  }

  void Key(std::string_view key, std::uint32_t type) {
    PutString(metadata_, key);
    Put(metadata_, type);
    ++value_count_;
  }

  void ArrayHeader(std::string_view key, std::uint32_t type, size_t count) {
    Key(key, 9);
    Put(metadata_, type);
    Put(metadata_, static_cast<std::uint64_t>(count));
  }

  std::uint32_t version_;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t value_count_ = 0;
  std::string metadata_, tensors_, data_;
};

}  // namespace banyan::testing_support
