// The metadata of a GGUF file: values by key, checked when the file is opened and decoded when
// asked for. What the keys mean is not known here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace banyan {

class ByteReader;

// Views into the file's bytes, which must outlive it.
class GgufMetadata {
 public:
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

  // `path` is the file, for messages.
  explicit GgufMetadata(std::string path = "") : path_(std::move(path)) {}
  // Reads `count` values of `bytes`, at the reader's position. Throws kFormat.
  void Read(ByteReader& reader, std::span<const std::byte> bytes, std::uint64_t count);

  const std::string& path() const { return path_; }
  // Null when the key is absent.
  const Value* Find(std::string_view key) const;
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
  // The views point into the bytes of the file.
  std::optional<std::vector<std::string_view>> FindStringArray(std::string_view key) const;
  std::optional<std::vector<float>> FindFloatArray(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> FindIntArray(std::string_view key) const;
  // Number of elements of an array of any type; cheap.
  std::optional<std::uint64_t> FindArrayLength(std::string_view key) const;

  std::uint64_t GetUint(std::string_view key) const;
  double GetFloat(std::string_view key) const;
  std::string GetString(std::string_view key) const;
  std::vector<std::int64_t> GetIntArray(std::string_view key) const;

 private:
  const Value* FindScalar(std::string_view key, const char* expected) const;
  const Value* FindArray(std::string_view key, const char* expected) const;
  [[noreturn]] void WrongType(std::string_view key, const Value& value, const char* expected) const;
  [[noreturn]] void Missing(std::string_view key) const;

  std::string path_;
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace banyan
