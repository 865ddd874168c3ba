// Reading a JSON Schema document: places with their JSON pointer, so that every error says where;
// references; and which values a schema lists or allows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/error.h"
#include "program/json_library.h"

namespace banyan {

using OrderedJson = nlohmann::ordered_json;

// A schema inside a document, together with its JSON pointer.
class SchemaPlace {
 public:
  SchemaPlace(const OrderedJson& value, std::string pointer)
      : value_(&value), pointer_(std::move(pointer)) {}

  const OrderedJson& value() const { return *value_; }
  const std::string& pointer() const { return pointer_; }

  bool Has(const std::string& key) const { return value_->contains(key); }
  SchemaPlace At(const std::string& key) const;  // REQUIRES: an object that has it
  SchemaPlace At(size_t index) const;            // REQUIRES: an array longer than index

  // Throws "schema at #/…: reason".
  [[noreturn]] void Refuse(ErrorKind kind, const std::string& reason) const;

  // The member `key` of this object; nullopt when absent, refused when it has another type.
  std::optional<bool> Bool(const char* key) const;
  std::optional<std::string> String(const char* key) const;
  std::optional<std::int64_t> Count(const char* key) const;  // 0 to 1 000 000
  std::optional<double> Number(const char* key) const;
  // The array (not empty) or object at `key`; refused when it is neither. REQUIRES: Has(key).
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

// The schema that "$ref" at `place` names inside `root`; other documents are refused.
SchemaPlace ResolveReference(const OrderedJson& root, const SchemaPlace& place);

// The names under "type"; "object" and "array" are inferred from "properties" and "items".
std::vector<std::string> TypeNames(const SchemaPlace& place);

// The names under "required".
std::vector<std::string> RequiredNames(const SchemaPlace& place);

// The values that a schema allows: their types, and the values themselves where it lists them.
class SchemaValues {
 public:
  explicit SchemaValues(const OrderedJson& root) : root_(root) {}

  // The values of "const" or "enum" that have the schema's type; nullopt when it lists none.
  // Refuses numbers that a double cannot hold exactly.
  std::optional<std::vector<OrderedJson>> ValuesOf(const SchemaPlace& place) const;

  // Whether it is certain that no value fits both: by type, by listed values, or by those of a
  // property that both require. REQUIRES: neither is recursive.
  bool AreDisjoint(const SchemaPlace& a, const SchemaPlace& b);

 private:
  using TypeSet = std::uint32_t;
  TypeSet TypesOf(const SchemaPlace& place);
  SchemaPlace Resolved(SchemaPlace place) const;

  const OrderedJson& root_;
  std::unordered_map<const OrderedJson*, TypeSet> types_;
};

}  // namespace banyan
