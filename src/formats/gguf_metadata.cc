// Typed access to the metadata of a GGUF file.
#include <cstring>
#include <limits>

#include "base/error.h"
#include "formats/byte_reader.h"
#include "formats/gguf.h"

namespace banyan {
namespace {

using Value = GgufFile::Value;
using ValueType = GgufFile::ValueType;

const char* ValueTypeName(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
      return "uint8";
    case ValueType::kInt8:
      return "int8";
    case ValueType::kUint16:
      return "uint16";
    case ValueType::kInt16:
      return "int16";
    case ValueType::kUint32:
      return "uint32";
    case ValueType::kInt32:
      return "int32";
    case ValueType::kFloat32:
      return "float32";
    case ValueType::kBool:
      return "bool";
    case ValueType::kString:
      return "string";
    case ValueType::kArray:
      return "array";
    case ValueType::kUint64:
      return "uint64";
    case ValueType::kInt64:
      return "int64";
    case ValueType::kFloat64:
      return "float64";
  }
  return "unknown";
}

template <typename T>
T Load(std::span<const std::byte> bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

bool IsInteger(ValueType type) {
  return type != ValueType::kFloat32 && type != ValueType::kFloat64 && type != ValueType::kBool &&
         type != ValueType::kString && type != ValueType::kArray;
}

// REQUIRES: IsInteger(type), and not a uint64 above the range of int64 (see FindUint, FindInt).
std::int64_t LoadInteger(ValueType type, std::span<const std::byte> bytes, size_t index) {
  switch (type) {
    case ValueType::kUint8:
      return Load<std::uint8_t>(bytes, index);
    case ValueType::kInt8:
      return Load<std::int8_t>(bytes, index);
    case ValueType::kUint16:
      return Load<std::uint16_t>(bytes, index);
    case ValueType::kInt16:
      return Load<std::int16_t>(bytes, index);
    case ValueType::kUint32:
      return Load<std::uint32_t>(bytes, index);
    case ValueType::kInt32:
      return Load<std::int32_t>(bytes, index);
    default:
      return Load<std::int64_t>(bytes, index);
  }
}

}  // namespace

bool GgufFile::Has(std::string_view key) const { return values_.contains(key); }

bool GgufFile::IsArray(std::string_view key) const {
  const Value* value = Find(key);
  return value != nullptr && value->is_array;
}

std::vector<std::string> GgufFile::Keys() const {
  std::vector<std::string> keys;
  keys.reserve(values_.size());
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

const Value* GgufFile::Find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

const Value* GgufFile::FindScalar(std::string_view key, const char* expected) const {
  const Value* value = Find(key);
  if (value != nullptr && value->is_array) WrongType(key, *value, expected);
  return value;
}

const Value* GgufFile::FindArray(std::string_view key, const char* expected) const {
  const Value* value = Find(key);
  if (value != nullptr && !value->is_array) WrongType(key, *value, expected);
  return value;
}

void GgufFile::WrongType(std::string_view key, const Value& value, const char* expected) const {
  Throw(ErrorKind::kFormat, "{}: key '{}': expected {}, found {}{}", path_, key, expected,
        value.is_array ? "an array of " : "", ValueTypeName(value.type));
}

void GgufFile::Missing(std::string_view key) const {
  Throw(ErrorKind::kFormat, "{}: key '{}' is missing", path_, key);
}

std::optional<std::uint64_t> GgufFile::FindUint(std::string_view key) const {
  constexpr const char* kExpected = "an unsigned integer";
  const Value* value = FindScalar(key, kExpected);
  if (value == nullptr) return std::nullopt;
  if (!IsInteger(value->type)) WrongType(key, *value, kExpected);
  if (value->type == ValueType::kUint64) return Load<std::uint64_t>(value->bytes, 0);
  const std::int64_t number = LoadInteger(value->type, value->bytes, 0);
  if (number < 0) {
    Throw(ErrorKind::kFormat, "{}: key '{}': expected {}, found {}", path_, key, kExpected, number);
  }
  return static_cast<std::uint64_t>(number);
}

std::optional<std::int64_t> GgufFile::FindInt(std::string_view key) const {
  constexpr const char* kExpected = "a signed integer";
  const Value* value = FindScalar(key, kExpected);
  if (value == nullptr) return std::nullopt;
  if (!IsInteger(value->type)) WrongType(key, *value, kExpected);
  const std::int64_t number = LoadInteger(value->type, value->bytes, 0);
  if (value->type == ValueType::kUint64 && number < 0) {
    Throw(ErrorKind::kFormat, "{}: key '{}': expected {}, found {}", path_, key, kExpected,
          static_cast<std::uint64_t>(number));
  }
  return number;
}

std::optional<double> GgufFile::FindFloat(std::string_view key) const {
  constexpr const char* kExpected = "a float";
  const Value* value = FindScalar(key, kExpected);
  if (value == nullptr) return std::nullopt;
  if (value->type == ValueType::kFloat32) return Load<float>(value->bytes, 0);
  if (value->type == ValueType::kFloat64) return Load<double>(value->bytes, 0);
  WrongType(key, *value, kExpected);
}

std::optional<bool> GgufFile::FindBool(std::string_view key) const {
  constexpr const char* kExpected = "a bool";
  const Value* value = FindScalar(key, kExpected);
  if (value == nullptr) return std::nullopt;
  if (value->type != ValueType::kBool) WrongType(key, *value, kExpected);
  return Load<std::uint8_t>(value->bytes, 0) != 0;
}

std::optional<std::string> GgufFile::FindString(std::string_view key) const {
  constexpr const char* kExpected = "a string";
  const Value* value = FindScalar(key, kExpected);
  if (value == nullptr) return std::nullopt;
  if (value->type != ValueType::kString) WrongType(key, *value, kExpected);
  ByteReader reader(value->bytes, path_);
  return std::string(reader.ReadString("a string"));
}

std::optional<std::vector<std::string_view>> GgufFile::FindStringArray(std::string_view key) const {
  constexpr const char* kExpected = "an array of string";
  const Value* value = FindArray(key, kExpected);
  if (value == nullptr) return std::nullopt;
  if (value->type != ValueType::kString) WrongType(key, *value, kExpected);
  std::vector<std::string_view> strings;
  strings.reserve(static_cast<size_t>(value->count));
  ByteReader reader(value->bytes, path_);
  for (std::uint64_t i = 0; i < value->count; ++i) strings.push_back(reader.ReadString("a string"));
  return strings;
}

std::optional<std::vector<float>> GgufFile::FindFloatArray(std::string_view key) const {
  constexpr const char* kExpected = "an array of float";
  const Value* value = FindArray(key, kExpected);
  if (value == nullptr) return std::nullopt;
  const bool wide = value->type == ValueType::kFloat64;
  if (!wide && value->type != ValueType::kFloat32) WrongType(key, *value, kExpected);
  std::vector<float> numbers(static_cast<size_t>(value->count));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] =
        wide ? static_cast<float>(Load<double>(value->bytes, i)) : Load<float>(value->bytes, i);
  }
  return numbers;
}

std::optional<std::vector<std::int64_t>> GgufFile::FindIntArray(std::string_view key) const {
  constexpr const char* kExpected = "an array of integers";
  const Value* value = FindArray(key, kExpected);
  if (value == nullptr) return std::nullopt;
  std::vector<std::int64_t> numbers(static_cast<size_t>(value->count));
  if (value->type == ValueType::kBool) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = Load<std::uint8_t>(value->bytes, i) != 0 ? 1 : 0;
    }
    return numbers;
  }
  if (!IsInteger(value->type)) WrongType(key, *value, kExpected);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = LoadInteger(value->type, value->bytes, i);
    if (value->type == ValueType::kUint64 && numbers[i] < 0) {
      Throw(ErrorKind::kFormat, "{}: key '{}': element {} is {}, too large", path_, key, i,
            static_cast<std::uint64_t>(numbers[i]));
    }
  }
  return numbers;
}

std::optional<std::uint64_t> GgufFile::FindArrayLength(std::string_view key) const {
  const Value* value = FindArray(key, "an array");
  if (value == nullptr) return std::nullopt;
  return value->count;
}

std::uint64_t GgufFile::GetUint(std::string_view key) const {
  if (!Has(key)) Missing(key);
  return *FindUint(key);
}

std::int64_t GgufFile::GetInt(std::string_view key) const {
  if (!Has(key)) Missing(key);
  return *FindInt(key);
}

double GgufFile::GetFloat(std::string_view key) const {
  if (!Has(key)) Missing(key);
  return *FindFloat(key);
}

bool GgufFile::GetBool(std::string_view key) const {
  if (!Has(key)) Missing(key);
  return *FindBool(key);
}

std::string GgufFile::GetString(std::string_view key) const {
  if (!Has(key)) Missing(key);
  return *FindString(key);
}

std::vector<std::string_view> GgufFile::GetStringArray(std::string_view key) const {
  if (!Has(key)) Missing(key);
  return *FindStringArray(key);
}

std::vector<float> GgufFile::GetFloatArray(std::string_view key) const {
  if (!Has(key)) Missing(key);
  return *FindFloatArray(key);
}

std::vector<std::int64_t> GgufFile::GetIntArray(std::string_view key) const {
  if (!Has(key)) Missing(key);
  return *FindIntArray(key);
}

}  // namespace banyan
