// GGUF files (versions 2 and 3, little-endian): metadata by key, and the tensors. A model split
// over several files is opened by its first one. What the keys mean is not known here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensor_store.h"

namespace banyan {

class GgufFile {
 public:
  // Maps and checks the file. Throws kNotFound or kIo when it cannot be mapped, kFormat when its
  // bytes do not follow the format, kUnsupported for other versions and byte orders. A file
  // without tensors (a vocabulary) is fine. A tensor of an unknown element type is an error only
  // when it is fetched.
  explicit GgufFile(const std::filesystem::path& path);

  // The same for bytes in memory, which must outlive the object; `name` stands for the path in
  // messages. Never opens a file, so a split model is refused.
  GgufFile(std::span<const std::byte> bytes, std::string name);

  GgufFile(GgufFile&&) = default;
  GgufFile& operator=(GgufFile&&) = default;

  const TensorStore& tensors() const { return tensors_; }
  const std::string& path() const { return path_; }
  int version() const { return version_; }

  [[nodiscard]] bool Has(std::string_view key) const;
  [[nodiscard]] bool IsArray(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> Keys() const;  // sorted

  // Find…: nothing when the key is absent. Get…: throws kFormat then. Both throw kFormat, naming
  // file, key, expected and found type, when the value has another type. Integers of any width and
  // sign are accepted when the value fits; floats of either width.
  std::optional<std::uint64_t> FindUint(std::string_view key) const;
  std::optional<std::int64_t> FindInt(std::string_view key) const;
  std::optional<double> FindFloat(std::string_view key) const;
  std::optional<bool> FindBool(std::string_view key) const;
  std::optional<std::string> FindString(std::string_view key) const;
  // The views point into the file: valid while this object lives.
  std::optional<std::vector<std::string_view>> FindStringArray(std::string_view key) const;
  std::optional<std::vector<float>> FindFloatArray(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> FindIntArray(std::string_view key) const;
  // Number of elements of an array of any type; cheap.
  std::optional<std::uint64_t> FindArrayLength(std::string_view key) const;

  std::uint64_t GetUint(std::string_view key) const;
  std::int64_t GetInt(std::string_view key) const;
  double GetFloat(std::string_view key) const;
  bool GetBool(std::string_view key) const;
  std::string GetString(std::string_view key) const;
  std::vector<std::string_view> GetStringArray(std::string_view key) const;
  std::vector<float> GetFloatArray(std::string_view key) const;
  std::vector<std::int64_t> GetIntArray(std::string_view key) const;

  // Value types as the format numbers them.
  enum class ValueType : std::uint32_t {
    kUint8,
    kInt8,
    kUint16,
    kInt16,
    kUint32,
    kInt32,
    kFloat32,
    kBool,
    kString,
    kArray,
    kUint64,
    kInt64,
    kFloat64,
  };

  // A checked value, decoded when it is asked for: big vocabularies cost nothing at open.
  struct Value {
    ValueType type = ValueType::kUint8;  // of the elements when is_array
    bool is_array = false;
    std::uint64_t count = 1;           // elements; 1 when not an array
    std::span<const std::byte> bytes;  // the elements as stored
  };

  // Null when the key is absent.
  const Value* Find(std::string_view key) const;

 private:
  GgufFile() = default;
  void Parse(std::span<const std::byte> bytes);
  void OpenOtherParts();
  const Value* FindScalar(std::string_view key, const char* expected) const;
  const Value* FindArray(std::string_view key, const char* expected) const;
  [[noreturn]] void WrongType(std::string_view key, const Value& value, const char* expected) const;
  [[noreturn]] void Missing(std::string_view key) const;

  std::string path_;
  int version_ = 0;
  std::map<std::string, Value, std::less<>> values_;
  TensorStore tensors_;
};

}  // namespace banyan
