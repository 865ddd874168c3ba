// A JSON Schema of an object as a category: what docs/constraints.md lists, property by property.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "tasks/extract_schema.h"

namespace banyan {
namespace {

constexpr int kMostListTokens = 96, kMostTextTokens = 32, kMostShortTokens = 14;

// What of a schema says which values fit; references are followed a little way.
std::set<std::string> TypesOf(const OrderedJson& root, const OrderedJson& schema, int depth = 0) {
  std::set<std::string> types;
  if (!schema.is_object() || depth > 16) return types;
  const auto add = [&](const OrderedJson& list, const auto& visit) {
    if (!list.is_array()) return;
    for (const OrderedJson& entry : list) visit(entry);
  };
  const auto merge = [&](const OrderedJson& other) {
    types.merge(TypesOf(root, other, depth + 1));
  };
  if (schema.contains("$ref") && schema.at("$ref").is_string()) {
    const std::string reference = schema.at("$ref").get<std::string>();
    if (reference.starts_with("#")) {
      try {
        merge(root.at(OrderedJson::json_pointer(reference.substr(1))));
      } catch (const OrderedJson::exception&) {
        return types;  // refused with its place when the values' texts are made
      }
    }
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    if (schema.contains(key)) add(schema.at(key), merge);
  }
  if (schema.contains("type")) {
    const OrderedJson& type = schema.at("type");
    if (type.is_string()) types.insert(type.get<std::string>());
    add(type, [&](const OrderedJson& name) {
      if (name.is_string()) types.insert(name.get<std::string>());
    });
  } else if (schema.contains("enum")) {
    add(schema.at("enum"), [&](const OrderedJson& value) { types.insert(value.type_name()); });
  } else if (schema.contains("const")) {
    types.insert(schema.at("const").type_name());
  }
  if (schema.contains("nullable") && schema.at("nullable") == true) types.insert("null");
  return types;
}

bool IsPlainText(const OrderedJson& schema) {
  return schema.contains("type") && schema.at("type") != "array" && !schema.contains("pattern") &&
         !schema.contains("format") && !schema.contains("enum") && !schema.contains("const") &&
         !schema.contains("minLength");
}

std::string WordsFor(const OrderedJson& schema, std::set<std::string> types) {
  if (schema.contains("enum") && schema.at("enum").is_array()) {
    std::vector<std::string> values;
    for (const OrderedJson& value : schema.at("enum")) {
      if (!value.is_null())
        values.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    }
    return fmt::format("one of {}", fmt::join(values, ", "));
  }
  types.erase("null");
  std::vector<std::string> words;
  for (const std::string& type : types) {
    if (type == "string") {
      const bool date = schema.contains("format") && schema.at("format") == "date";
      words.push_back(date ? "date as YYYY-MM-DD" : "text");
    } else if (type == "integer") {
      words.push_back("whole number");
    } else if (type == "boolean") {
      words.push_back("true or false");
    } else if (type == "array") {
      words.push_back("list");
    } else {
      words.push_back(type);
    }
  }
  return fmt::format("{}", fmt::join(words, " or "));
}

ExtractAttribute ReadProperty(const JsonPlace& root, const JsonPlace& place,
                              const std::string& name, bool required) {
  place.ExpectObject();
  const OrderedJson& given = place.value();
  const std::set<std::string> types = TypesOf(root.value(), given);
  ExtractAttribute attribute;
  attribute.name = name;
  attribute.description = place.Text("description").value_or(place.Text("title").value_or(""));
  if (given.contains("examples") && given.at("examples").is_array()) {
    for (const OrderedJson& example : given.at("examples")) {
      attribute.examples.push_back(example.dump());
    }
  }
  attribute.type = WordsFor(given, types);
  const bool may_be_null = types.contains("null");
  attribute.nullable = may_be_null || !required;
  attribute.leave_out_null = !required && !may_be_null;
  attribute.ends_bare = types.contains("number") || types.contains("integer");
  attribute.is_text =
      types.contains("string") && types.size() <= (may_be_null ? 2u : 1u) && IsPlainText(given);
  attribute.typical_tokens = types.contains("array") || types.contains("object") ? kMostListTokens
                             : types.contains("string")                          ? kMostTextTokens
                                                                                 : kMostShortTokens;
  OrderedJson schema = given;
  if (attribute.leave_out_null) schema = {{"anyOf", {given, {{"type", "null"}}}}};
  for (const char* key : {"$defs", "definitions"}) {
    if (root.Has(key) && !schema.contains(key)) schema[key] = root.value().at(key);
  }
  attribute.json_schema = schema.dump();
  return attribute;
}

}  // namespace

ExtractCategory ReadJsonSchemaCategory(const JsonPlace& place) {
  if (!place.Has("properties")) {
    place.Refuse("expected 'categories', 'attributes', or a JSON Schema with 'properties'");
  }
  if (place.Has("type") && place.value().at("type") != "object") {
    place.At("type").Refuse("expected a schema of type object");
  }
  place.AllowKeys({"$schema", "$id", "$defs", "definitions", "$comment", "title", "description",
                   "type", "properties", "required", "additionalProperties", "examples",
                   "default"});
  std::set<std::string> required;
  if (place.Has("required")) {
    const JsonPlace list = place.At("required");
    list.ExpectArray();
    for (size_t i = 0; i < list.value().size(); ++i) {
      const OrderedJson& name = list.value()[i];
      if (!name.is_string() || !place.value().at("properties").contains(name.get<std::string>())) {
        list.At(i).Refuse(fmt::format("expected the name of a property, found {}", name.dump()));
      }
      required.insert(name.get<std::string>());
    }
  }
  ExtractCategory category;
  category.name = place.Text("title").value_or("");
  category.description = place.Text("description").value_or("");
  const JsonPlace properties = place.At("properties");
  properties.ExpectObject();
  for (const auto& [name, value] : properties.value().items()) {
    if (name.empty()) properties.Refuse("a property's name is empty");
    category.attributes.push_back(
        ReadProperty(place, properties.At(name), name, required.contains(name)));
  }
  if (category.attributes.empty()) properties.Refuse("expected at least one property");
  if (category.attributes.size() > 512) properties.Refuse("expected at most 512 properties");
  return category;
}

}  // namespace banyan
