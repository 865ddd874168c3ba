// Reading the metadata of a GGUF file, and typed access to it.
#include "formats/gguf_metadata.h"

#include <cstring>

#include "base/error.h"
#include "formats/byte_reader.h"

namespace banyan {
namespace {

using Value = GgufMetadata::Value;
using ValueType = GgufMetadata::ValueType;

constexpr std::uint64_t kMaxKeyBytes = 65535;
constexpr int kMaxArrayDepth = 4;
// The smallest encoding: key length, value type and one byte.
constexpr std::uint64_t kMinValueBytes = 8 + 4 + 1;

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

// Bytes of a value of fixed size; 0 for strings and arrays.
std::uint64_t FixedBytes(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
    case ValueType::kInt8:
    case ValueType::kBool:
      return 1;
    case ValueType::kUint16:
    case ValueType::kInt16:
      return 2;
    case ValueType::kUint32:
    case ValueType::kInt32:
    case ValueType::kFloat32:
      return 4;
    case ValueType::kUint64:
    case ValueType::kInt64:
    case ValueType::kFloat64:
      return 8;
    case ValueType::kString:
    case ValueType::kArray:
      return 0;
  }
  return 0;
}

ValueType ReadValueType(ByteReader& reader, const std::string& path, std::string_view key) {
  const auto number = reader.Read<std::uint32_t>("a value type");
  if (number > static_cast<std::uint32_t>(ValueType::kFloat64)) {
    Throw(ErrorKind::kFormat, "{}: key '{}': expected a value type of 0 to 12, found {}", path, key,
          number);
  }
  return static_cast<ValueType>(number);
}

// Passes `count` elements of `type`, checking every length on the way.
void SkipElements(ByteReader& reader, const std::string& path, std::string_view key, ValueType type,
                  std::uint64_t count, int depth) {
  if (const std::uint64_t size = FixedBytes(type); size > 0) {
    reader.CheckCount(count, size, "the length of an array");
    reader.Take(count * size, "an array");
    return;
  }
  if (type == ValueType::kString) {
    reader.CheckCount(count, 8, "the length of a string array");
    for (std::uint64_t i = 0; i < count; ++i) reader.ReadString("a string");
    return;
  }
  if (depth >= kMaxArrayDepth) {
    Throw(ErrorKind::kFormat, "{}: key '{}': arrays nest deeper than {}", path, key,
          kMaxArrayDepth);
  }
  reader.CheckCount(count, 12, "the length of an array of arrays");
  for (std::uint64_t i = 0; i < count; ++i) {
    const ValueType element = ReadValueType(reader, path, key);
    const auto length = reader.Read<std::uint64_t>("the length of an array");
    SkipElements(reader, path, key, element, length, depth + 1);
  }
}

Value ReadValue(ByteReader& reader, std::span<const std::byte> bytes, const std::string& path,
                std::string_view key) {
  Value value;
  value.type = ReadValueType(reader, path, key);
  if (value.type == ValueType::kArray) {
    value.is_array = true;
    value.type = ReadValueType(reader, path, key);
    value.count = reader.Read<std::uint64_t>("the length of an array");
  }
  const size_t begin = reader.position();
  SkipElements(reader, path, key, value.type, value.count, 1);
  value.bytes = bytes.subspan(begin, reader.position() - begin);
  return value;
}

}  // namespace

void GgufMetadata::Read(ByteReader& reader, std::span<const std::byte> bytes, std::uint64_t count) {
  reader.CheckCount(count, kMinValueBytes, "the number of metadata values");
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string_view key = reader.ReadString("a metadata key");
    if (key.empty() || key.size() > kMaxKeyBytes) {
      Throw(ErrorKind::kFormat, "{}: a metadata key has {} bytes, expected 1 to {}", path_,
            key.size(), kMaxKeyBytes);
    }
    const auto [place, inserted] = values_.try_emplace(std::string(key));
    if (!inserted) Throw(ErrorKind::kFormat, "{}: key '{}' is there twice", path_, key);
    place->second = ReadValue(reader, bytes, path_, key);
  }
}

bool GgufMetadata::Has(std::string_view key) const { return values_.contains(key); }

bool GgufMetadata::IsArray(std::string_view key) const {
  const Value* value = Find(key);
  return value != nullptr && value->is_array;
}

std::vector<std::string> GgufMetadata::Keys() const {
  std::vector<std::string> keys;
  keys.reserve(values_.size());
  for (const auto& [key, value] : values_) keys.push_back(key);
  return keys;
}

const Value* GgufMetadata::Find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

const Value* GgufMetadata::FindScalar(std::string_view key, const char* expected) const {
  const Value* value = Find(key);
  if (value != nullptr && value->is_array) WrongType(key, *value, expected);
  return value;
}

const Value* GgufMetadata::FindArray(std::string_view key, const char* expected) const {
  const Value* value = Find(key);
  if (value != nullptr && !value->is_array) WrongType(key, *value, expected);
  return value;
}

void GgufMetadata::WrongType(std::string_view key, const Value& value, const char* expected) const {
  Throw(ErrorKind::kFormat, "{}: key '{}': expected {}, found {}{}", path_, key, expected,
        value.is_array ? "an array of " : "", ValueTypeName(value.type));
}

void GgufMetadata::Missing(std::string_view key) const {
  Throw(ErrorKind::kFormat, "{}: key '{}' is missing", path_, key);
}

std::optional<std::uint64_t> GgufMetadata::FindUint(std::string_view key) const {
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

std::optional<std::int64_t> GgufMetadata::FindInt(std::string_view key) const {
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

std::optional<double> GgufMetadata::FindFloat(std::string_view key) const {
  constexpr const char* kExpected = "a float";
  const Value* value = FindScalar(key, kExpected);
  if (value == nullptr) return std::nullopt;
  if (value->type == ValueType::kFloat32) return Load<float>(value->bytes, 0);
  if (value->type == ValueType::kFloat64) return Load<double>(value->bytes, 0);
  WrongType(key, *value, kExpected);
}

std::optional<bool> GgufMetadata::FindBool(std::string_view key) const {
  constexpr const char* kExpected = "a bool";
  const Value* value = FindScalar(key, kExpected);
  if (value == nullptr) return std::nullopt;
  if (value->type != ValueType::kBool) WrongType(key, *value, kExpected);
  return Load<std::uint8_t>(value->bytes, 0) != 0;
}

std::optional<std::string> GgufMetadata::FindString(std::string_view key) const {
  constexpr const char* kExpected = "a string";
  const Value* value = FindScalar(key, kExpected);
  if (value == nullptr) return std::nullopt;
  if (value->type != ValueType::kString) WrongType(key, *value, kExpected);
  ByteReader reader(value->bytes, path_);
  return std::string(reader.ReadString("a string"));
}

std::optional<std::vector<std::string_view>> GgufMetadata::FindStringArray(
    std::string_view key) const {
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

std::optional<std::vector<float>> GgufMetadata::FindFloatArray(std::string_view key) const {
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

std::optional<std::vector<std::int64_t>> GgufMetadata::FindIntArray(std::string_view key) const {
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

std::optional<std::uint64_t> GgufMetadata::FindArrayLength(std::string_view key) const {
  const Value* value = FindArray(key, "an array");
  if (value == nullptr) return std::nullopt;
  return value->count;
}

std::uint64_t GgufMetadata::GetUint(std::string_view key) const {
  if (!Has(key)) Missing(key);
  return *FindUint(key);
}

double GgufMetadata::GetFloat(std::string_view key) const {
  if (!Has(key)) Missing(key);
  return *FindFloat(key);
}

std::string GgufMetadata::GetString(std::string_view key) const {
  if (!Has(key)) Missing(key);
  return *FindString(key);
}

std::vector<std::int64_t> GgufMetadata::GetIntArray(std::string_view key) const {
  if (!Has(key)) Missing(key);
  return *FindIntArray(key);
}

}  // namespace banyan
