// What a schema says about the values that fit it, without its texts: their types, and the values
// themselves where they are listed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "constrain/schema_place.h"

namespace banyan {

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
