// Typed access to the fields of a JSON object, for the readers of configuration files.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace banyan {

// An object of a file, which errors name; `object` must outlive it. Null counts as absent except in
// IsNull. Find… returns nullopt when the key is absent. A value of another type is a kFormat error.
class JsonFields {
 public:
  JsonFields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) {
      Throw(ErrorKind::kFormat, "{}: expected an object, found {}", where_, object_.type_name());
    }
  }

  const std::string& where() const { return where_; }

  const Json* Find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  bool IsNull(const char* key) const {
    const auto found = object_.find(key);
    return found != object_.end() && found->is_null();
  }

  std::optional<int> FindInt(const char* key) const {
    const Json* value = Find(key);
    if (value == nullptr) return std::nullopt;
    return IntOf(*value, key);
  }

  int GetInt(const char* key) const {
    const std::optional<int> value = FindInt(key);
    if (!value) Throw(ErrorKind::kFormat, "{}: '{}' is missing", where_, key);
    return *value;
  }

  std::optional<double> FindNumber(const char* key) const {
    const Json* value = Find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) WrongType(key, *value, "a number");
    return value->get<double>();
  }

  std::optional<bool> FindBool(const char* key) const {
    const Json* value = Find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_boolean()) WrongType(key, *value, "true or false");
    return value->get<bool>();
  }

  std::optional<std::string> FindString(const char* key) const {
    const Json* value = Find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) WrongType(key, *value, "a string");
    return value->get<std::string>();
  }

  std::vector<double> NumbersOf(const char* key) const {
    const Json* value = Find(key);
    if (value == nullptr) return {};
    if (!value->is_array()) WrongType(key, *value, "a list of numbers");
    std::vector<double> numbers;
    for (const Json& element : *value) {
      if (!element.is_number()) WrongType(key, element, "numbers only");
      numbers.push_back(element.get<double>());
    }
    return numbers;
  }

  // Whole numbers may be written as 4096.0.
  int IntOf(const Json& value, const char* key) const {
    if (!value.is_number()) WrongType(key, value, "an integer");
    const double number = value.get<double>();
    if (number != std::floor(number) || std::abs(number) > std::numeric_limits<int>::max()) {
      Throw(ErrorKind::kFormat, "{}: '{}': expected a 32-bit integer, found {}", where_, key,
            number);
    }
    return static_cast<int>(number);
  }

  [[noreturn]] void WrongType(const char* key, const Json& value, const char* expected) const {
    Throw(ErrorKind::kFormat, "{}: '{}': expected {}, found {}", where_, key, expected,
          value.type_name());
  }

 private:
  const Json& object_;
  std::string where_;
};

}  // namespace banyan
