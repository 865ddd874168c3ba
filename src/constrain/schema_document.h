// A schema inside a JSON Schema document together with its JSON pointer, so that every refusal
// says where.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
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

// What a schema says about the values that fit it, without its texts: their types, and the values
// themselves where they are listed.

// The names under "type"; "object" and "array" are inferred from "properties" and "items".
std::vector<std::string> TypeNames(const SchemaPlace& place);

// The names under "required".
std::vector<std::string> RequiredNames(const SchemaPlace& place);

class SchemaValues {
 public:
  explicit SchemaValues(const OrderedJson& root) : root_(root) {}

  // The values of "const" or "enum" that have the schema's type; nullopt when it lists none.
  // Refuses numbers that a reader may not find equal to themselves.
  std::optional<std::vector<OrderedJson>> ValuesOf(const SchemaPlace& place) const;

  // Whether surely no value fits both: by type, by listed values, or by those of a property that
  // both require. REQUIRES: neither contains itself.
  bool AreDisjoint(const SchemaPlace& a, const SchemaPlace& b);

 private:
  using TypeSet = std::uint32_t;
  TypeSet TypesOf(const SchemaPlace& place);
  SchemaPlace Resolved(SchemaPlace place) const;

  const OrderedJson& root_;
  std::unordered_map<const OrderedJson*, TypeSet> types_;
};

}  // namespace banyan
