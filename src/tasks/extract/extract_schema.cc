// A schema of any form: attributes alone, categories with attributes, or a JSON Schema. Attributes
// are read in extract_schema_attributes.cc, a JSON Schema in extract_schema_json.cc.
#include "tasks/extract/extract_schema.h"

#include <fmt/format.h>

#include <algorithm>

namespace banyan {
namespace {

constexpr size_t kMostCategories = 10'000;

ExtractCategory ReadCategory(const JsonPlace& place, const std::string& name,
                             const std::vector<std::string_view>& other_keys) {
  place.ExpectObject();
  std::vector<std::string_view> keys = {"description", "attributes"};
  keys.insert(keys.end(), other_keys.begin(), other_keys.end());
  place.AllowKeys(keys);
  ExtractCategory category;
  category.name = name;
  category.description = place.Text("description").value_or("");
  if (!place.Has("attributes")) place.Refuse("expected 'attributes'");
  category.attributes = ReadAttributes(place.At("attributes"));
  return category;
}

// {"brand": "text", "colour": ["black", "white"], "ports": {"type": "list", "of": "text"}}: nothing
// but attributes. What could be a JSON Schema is one.
bool IsShortForm(const OrderedJson& root) {
  if (root.empty()) return false;
  for (const char* key : {"categories", "attributes", "properties", "$schema", "$ref", "allOf"}) {
    if (root.contains(key)) return false;
  }
  if (root.contains("type") && root.at("type") == "object") return false;
  for (const auto& [name, value] : root.items()) {
    const bool type = value.is_string() || (value.is_object() && value.contains("type"));
    const bool values = value.is_array() && !value.empty() && value.front().is_string();
    if (!type && !values) return false;
  }
  return true;
}

}  // namespace

ExtractSchema ParseExtractSchema(std::string_view text, const std::string& name) {
  const OrderedJson root = ParsePlacedJson(text, name);
  const JsonPlace place(name, root, "");
  place.ExpectObject();
  ExtractSchema schema;
  if (IsShortForm(root)) {
    ExtractCategory& category = schema.categories.emplace_back();
    category.attributes = ReadAttributes(place);
    return schema;
  }
  if (!place.Has("categories") && !place.Has("attributes")) {
    schema.categories.push_back(ReadJsonSchemaCategory(place));
    return schema;
  }
  if (place.Has("attributes")) {
    if (place.Has("categories")) {
      place.Refuse("'categories' and 'attributes' together: give one of them");
    }
    schema.categories.push_back(
        ReadCategory(place, place.Text("category").value_or(""), {"category"}));
    return schema;
  }
  place.AllowKeys({"categories"});
  const JsonPlace categories = place.At("categories");
  categories.ExpectObject();
  for (const auto& [key, value] : categories.value().items()) {
    if (key.empty()) categories.Refuse("a category's name is empty");
    schema.categories.push_back(ReadCategory(categories.At(key), key, {}));
  }
  if (schema.categories.empty()) categories.Refuse("expected at least one category");
  if (schema.categories.size() > kMostCategories) {
    categories.Refuse(fmt::format("expected at most {} categories", kMostCategories));
  }
  return schema;
}

const ExtractCategory* ExtractSchema::Find(std::string_view category) const {
  const auto found = std::ranges::find(categories, category, &ExtractCategory::name);
  return found == categories.end() ? nullptr : &*found;
}

std::string ExtractSchema::ToJsonSchema(const ExtractCategory& category) {
  OrderedJson schema = {{"type", "object"}, {"properties", OrderedJson::object()}};
  OrderedJson required = OrderedJson::array();
  for (const ExtractAttribute& attribute : category.attributes) {
    schema["properties"][attribute.name] = OrderedJson::parse(attribute.json_schema);
    if (!attribute.leave_out_null) required.push_back(attribute.name);
  }
  schema["required"] = required;
  schema["additionalProperties"] = false;
  return schema.dump();
}

}  // namespace banyan
