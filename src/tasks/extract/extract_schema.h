// Reading schemas: JSON with the place of every value, so that every refusal says where.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/extract.h"
#include "program/json_library.h"

namespace banyan {

using OrderedJson = nlohmann::ordered_json;

class JsonPlace {
 public:
  // `name`: of the file; `pointer`: of the value in it.
  JsonPlace(std::string name, const OrderedJson& value, std::string pointer)
      : name_(std::move(name)), value_(&value), pointer_(std::move(pointer)) {}

  const OrderedJson& value() const { return *value_; }
  const std::string& name() const { return name_; }
  const std::string& pointer() const { return pointer_; }
  bool Has(const std::string& key) const { return value_->is_object() && value_->contains(key); }
  JsonPlace At(const std::string& key) const;  // REQUIRES: an object that has it
  JsonPlace At(size_t index) const;            // REQUIRES: an array that long

  // Throws kUsage: "FILE: at /attributes/2/type: reason".
  [[noreturn]] void Refuse(const std::string& reason) const;

  void ExpectObject() const;
  void ExpectArray() const;
  void AllowKeys(const std::vector<std::string_view>& keys) const;

  // Of the member `key`: absent (or null), or refused unless it is one.
  std::optional<std::string> Text(const std::string& key) const;
  std::optional<bool> Bool(const std::string& key) const;
  std::optional<double> Number(const std::string& key) const;
  std::optional<std::int64_t> Count(const std::string& key, std::int64_t least,
                                    std::int64_t most) const;
  // A list of one or more texts that are not empty. REQUIRES: Has(key), else refused.
  std::vector<std::string> Texts(const std::string& key) const;

 private:
  std::string name_;
  const OrderedJson* value_;
  std::string pointer_;
};

// Throws kUsage for what is no JSON, nests deeper than 64 or has more than 100 000 values.
OrderedJson ParsePlacedJson(std::string_view text, const std::string& name);

// Attributes in our own form: an object by name, or a list. `depth`: in how many objects they are.
std::vector<ExtractAttribute> ReadAttributes(const JsonPlace& attributes, int depth = 0);
// The type of a list of objects, for people.
std::string WordsForObjects(const std::vector<ExtractAttribute>& parts);
// Refuses objects that a list cannot have: their first attribute tells them apart, and they have no
// objects inside.
void CheckObjects(const JsonPlace& place, const std::vector<ExtractAttribute>& parts);

// A JSON Schema of an object: its properties are the attributes.
ExtractCategory ReadJsonSchemaCategory(const JsonPlace& place);

}  // namespace banyan
