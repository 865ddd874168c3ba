// A schema inside a JSON Schema document together with its JSON pointer, so that every refusal
// says where.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/error.h"

namespace banyan {

using OrderedJson = nlohmann::ordered_json;

class SchemaPlace {
 public:
  SchemaPlace(const OrderedJson& value, std::string pointer)
      : value_(&value), pointer_(std::move(pointer)) {}

  const OrderedJson& value() const { return *value_; }
  const std::string& pointer() const { return pointer_; }

  bool Has(const std::string& key) const { return value_->contains(key); }
  SchemaPlace At(const std::string& key) const;  // REQUIRES: an object that has it
  SchemaPlace At(size_t index) const;            // REQUIRES: an array that long

  // Throws "schema at #/…: reason".
  [[noreturn]] void Refuse(ErrorKind kind, const std::string& reason) const;

  // Of this object's member `key`: absent, or refused unless it is one.
  std::optional<bool> Bool(const char* key) const;
  std::optional<std::string> String(const char* key) const;
  std::optional<std::int64_t> Count(const char* key) const;  // 0 to 1 000 000
  std::optional<double> Number(const char* key) const;
  // An array with at least one element, or an object, at `key`. REQUIRES: Has(key).
  SchemaPlace Array(const char* key) const;
  SchemaPlace Object(const char* key) const;

  // Refuses a keyword that is neither one of these nor an annotation.
  void AllowKeywords(const std::vector<std::string_view>& keywords) const;

 private:
  const OrderedJson* value_;
  std::string pointer_;
};

// Throws kFormat for bad JSON, kLimit beyond 128 levels or 10000 keys.
OrderedJson ParseSchemaText(std::string_view text);

// What "$ref" at `place` names inside `root`; elsewhere is refused.
SchemaPlace ResolveReference(const OrderedJson& root, const SchemaPlace& place);

}  // namespace banyan
