// A schema in its own form: attributes alone, or categories with attributes. A JSON Schema is read
// in extract_schema_json.cc.
#include "tasks/extract/extract_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

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

constexpr size_t kMostAttributes = 512;  // of one category
constexpr int kMostTokens = 4096;        // of one value

// Default token limits of values. A number or a date is written with the words around it.
constexpr int kTextTokens = 32, kNumberTokens = 16, kBooleanTokens = 5, kDateTokens = 20;
constexpr int kListTokens = 96, kEnumTokens = 48;
constexpr int kDeepestObjects = 8;

const std::vector<std::string_view> kTypes = {"text", "number", "integer", "boolean",
                                              "date", "enum",   "list",    "object"};

std::string InPattern(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}/-").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// A value's type: an attribute without a name, and a JSON Schema without null.
struct TypeOfValue {
  ExtractAttribute attribute;
  OrderedJson schema;
};

TypeOfValue MakeType(ValueKind kind, std::string words, int tokens, OrderedJson schema) {
  TypeOfValue type{.attribute = {}, .schema = std::move(schema)};
  type.attribute.kind = kind;
  type.attribute.type = std::move(words);
  type.attribute.typical_tokens = tokens;
  return type;
}

TypeOfValue ReadType(const JsonPlace& place, const std::vector<std::string_view>& other_keys,
                     int depth);

TypeOfValue ReadText(const JsonPlace& place) {
  TypeOfValue type = MakeType(ValueKind::kText, "text", kTextTokens, {{"type", "string"}});
  const std::optional<std::int64_t> most = place.Count("max_length", 1, 100'000);
  if (const std::optional<std::string> pattern = place.Text("pattern")) {
    type.schema["pattern"] = "^(?:" + *pattern + ")$";
    type.attribute.type = fmt::format("text that matches {}", *pattern);
  } else {
    type.schema["minLength"] = 1;
  }
  if (most) type.schema["maxLength"] = *most;
  return type;
}

TypeOfValue ReadNumber(const JsonPlace& place, bool whole) {
  TypeOfValue type =
      MakeType(whole ? ValueKind::kInteger : ValueKind::kNumber, whole ? "whole number" : "number",
               kNumberTokens, {{"type", whole ? "integer" : "number"}});
  const std::optional<double> least = place.Number("minimum"), most = place.Number("maximum");
  if (least) type.schema["minimum"] = *least;
  if (most) type.schema["maximum"] = *most;
  if (least && most && *least > *most) {
    place.At("minimum").Refuse(fmt::format("no number fits: it is above the maximum {}", *most));
  }
  if (const std::optional<std::string> unit = place.Text("unit")) {
    type.attribute.unit = *unit;
    type.attribute.type += " in " + *unit;
  }
  if (!place.Has("units")) return type;
  type.attribute.units = place.Texts("units");
  if (place.Has("unit")) place.At("unit").Refuse("'unit' and 'units' together: give one of them");
  for (const char* bound : {"minimum", "maximum"}) {
    if (place.Has(bound)) place.At(bound).Refuse("bounds need one unit: give 'unit'");
  }
  std::vector<std::string> patterns;
  for (const std::string& unit : type.attribute.units) patterns.push_back(InPattern(unit));
  type.schema = {
      {"type", "string"},
      {"pattern", fmt::format("^-?(?:0|[1-9][0-9]{{0,14}}){} (?:{})$",
                              whole ? "" : "(?:\\.[0-9]{1,14})?", fmt::join(patterns, "|"))}};
  type.attribute.type += fmt::format(" with its unit ({})", fmt::join(type.attribute.units, ", "));
  return type;
}

TypeOfValue ReadEnum(const JsonPlace& place) {
  const std::vector<std::string> values = place.Texts("values");
  if (std::set<std::string>(values.begin(), values.end()).size() != values.size()) {
    place.At("values").Refuse("a value comes twice");
  }
  TypeOfValue type = MakeType(ValueKind::kEnum, fmt::format("one of {}", fmt::join(values, ", ")),
                              kEnumTokens, {{"enum", values}});
  type.attribute.allowed = values;
  return type;
}

TypeOfValue ReadObject(const JsonPlace& place, int depth) {
  if (depth >= kDeepestObjects) {
    place.Refuse(fmt::format("objects nest deeper than {}", kDeepestObjects));
  }
  if (!place.Has("attributes")) place.Refuse("an object needs 'attributes'");
  TypeOfValue type = MakeType(ValueKind::kObject, "object", 0, {{"type", "object"}});
  type.attribute.parts = ReadAttributes(place.At("attributes"), depth + 1);
  OrderedJson required = OrderedJson::array();
  for (const ExtractAttribute& part : type.attribute.parts) {
    type.schema["properties"][part.name] = OrderedJson::parse(part.json_schema);
    required.push_back(part.name);
  }
  type.schema["required"] = std::move(required);
  type.schema["additionalProperties"] = false;
  return type;
}

TypeOfValue ReadList(const JsonPlace& place, int depth) {
  if (!place.Has("of")) place.Refuse("a list needs 'of': the type of its items");
  const JsonPlace of = place.At("of");
  TypeOfValue item;
  if (of.value().is_string()) {  // a type's name, with no further keys
    const OrderedJson spelled = {{"type", of.value()}};
    item = ReadType(JsonPlace(of.name(), spelled, of.pointer()), {}, depth);
  } else {
    item = ReadType(of, {}, depth);
  }
  if (item.attribute.kind == ValueKind::kList) of.Refuse("lists of lists are not supported");
  const std::int64_t most = place.Count("max_items", 1, 1000).value_or(16);
  TypeOfValue type = MakeType(ValueKind::kList, "list of " + item.attribute.type, kListTokens,
                              {{"type", "array"}, {"items", item.schema}, {"maxItems", most}});
  type.attribute.max_items = static_cast<int>(most);
  if (item.attribute.kind == ValueKind::kObject) {
    type.attribute.kind = ValueKind::kObjects;
    type.attribute.parts = std::move(item.attribute.parts);
    type.attribute.type = WordsForObjects(type.attribute.parts);
    CheckObjects(of, type.attribute.parts);
  } else {
    type.attribute.parts.push_back(std::move(item.attribute));
  }
  return type;
}

TypeOfValue ReadType(const JsonPlace& place, const std::vector<std::string_view>& other_keys,
                     int depth) {
  place.ExpectObject();
  const std::string name = place.Text("type").value_or("text");
  std::vector<std::string_view> keys = other_keys;
  const auto allow = [&](std::initializer_list<std::string_view> more) {
    keys.insert(keys.end(), more);
  };
  allow({"type"});
  TypeOfValue type;
  if (name == "text") {
    allow({"pattern", "max_length"});
    type = ReadText(place);
  } else if (name == "number" || name == "integer") {
    allow({"unit", "units", "minimum", "maximum"});
    type = ReadNumber(place, name == "integer");
  } else if (name == "boolean") {
    type = MakeType(ValueKind::kBoolean, "true or false", kBooleanTokens, {{"type", "boolean"}});
  } else if (name == "date") {
    type = MakeType(ValueKind::kDate, "date as YYYY-MM-DD", kDateTokens,
                    {{"type", "string"}, {"format", "date"}});
  } else if (name == "enum") {
    allow({"values"});
    type = ReadEnum(place);
  } else if (name == "list") {
    allow({"of", "max_items"});
    type = ReadList(place, depth);
  } else if (name == "object") {
    allow({"attributes"});
    type = ReadObject(place, depth);
  } else {
    place.At("type").Refuse(
        fmt::format("expected one of {}; found '{}'", fmt::join(kTypes, ", "), name));
  }
  place.AllowKeys(keys);
  return type;
}

// The short form of an attribute: "number", "number in kg", "list of text", or a list of the values
// that it may have.
OrderedJson Spelled(const JsonPlace& place) {
  const OrderedJson& value = place.value();
  if (value.is_array()) return {{"type", "enum"}, {"values", value}};
  if (!value.is_string()) return value;
  const std::string text = value.get<std::string>();
  constexpr std::string_view kListOf = "list of ", kIn = " in ";
  if (text.starts_with(kListOf)) {
    const OrderedJson item(text.substr(kListOf.size()));
    const OrderedJson of = Spelled(JsonPlace(place.name(), item, place.pointer()));
    return {{"type", "list"}, {"of", of}};
  }
  if (const size_t at = text.find(kIn); at != std::string::npos && at > 0) {
    return {{"type", text.substr(0, at)}, {"unit", text.substr(at + kIn.size())}};
  }
  return {{"type", text}};
}

ExtractAttribute ReadAttribute(const JsonPlace& place, const std::string& given_name, int depth) {
  static const std::vector<std::string_view> kKeys = {"name", "description", "examples", "nullable",
                                                      "max_tokens"};
  place.ExpectObject();
  TypeOfValue type = ReadType(place, kKeys, depth);
  ExtractAttribute attribute = std::move(type.attribute);
  attribute.name = given_name.empty() ? place.Text("name").value_or("") : given_name;
  if (attribute.name.empty()) place.Refuse("an attribute needs a 'name' that is not empty");
  attribute.description = place.Text("description").value_or("");
  attribute.nullable = place.Bool("nullable").value_or(true);
  if (place.Has("examples")) {
    const JsonPlace examples = place.At("examples");
    examples.ExpectArray();
    for (const OrderedJson& example : examples.value())
      attribute.examples.push_back(example.dump());
  }
  attribute.max_tokens = static_cast<int>(place.Count("max_tokens", 1, kMostTokens).value_or(0));
  if (attribute.nullable) {
    if (type.schema.contains("items")) type.schema["minItems"] = 1;  // none: null
    type.schema = {{"anyOf", {std::move(type.schema), {{"type", "null"}}}}};
  }
  attribute.json_schema = type.schema.dump();
  return attribute;
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

std::vector<ExtractAttribute> ReadAttributes(const JsonPlace& attributes, int depth) {
  std::vector<ExtractAttribute> read;
  if (attributes.value().is_object()) {
    for (const auto& [key, value] : attributes.value().items()) {
      const JsonPlace place = attributes.At(key);
      const OrderedJson spelled = Spelled(place);
      read.push_back(ReadAttribute(JsonPlace(place.name(), spelled, place.pointer()), key, depth));
    }
  } else {
    attributes.ExpectArray();
    for (size_t i = 0; i < attributes.value().size(); ++i) {
      const JsonPlace place = attributes.At(i);
      const std::string name = place.value().is_string() ? place.value().get<std::string>() : "";
      const OrderedJson named = {{"name", name}};  // of a name alone: a text
      read.push_back(ReadAttribute(
          name.empty() ? place : JsonPlace(place.name(), named, place.pointer()), "", depth));
    }
  }
  if (read.empty()) attributes.Refuse("expected at least one attribute");
  if (read.size() > kMostAttributes) {
    attributes.Refuse(fmt::format("expected at most {} attributes", kMostAttributes));
  }
  std::set<std::string> names;
  for (const ExtractAttribute& attribute : read) {
    if (names.insert(attribute.name).second) continue;
    attributes.Refuse(fmt::format("the attribute '{}' comes twice", attribute.name));
  }
  return read;
}

std::string WordsForObjects(const std::vector<ExtractAttribute>& parts) {
  std::vector<std::string> words;
  for (const ExtractAttribute& part : parts) {
    words.push_back(fmt::format("{} ({})", part.name, part.type));
  }
  return fmt::format("list of objects: {}", fmt::join(words, ", "));
}

void CheckObjects(const JsonPlace& place, const std::vector<ExtractAttribute>& parts) {
  const ValueKind first = parts.front().kind;
  if (first != ValueKind::kText && first != ValueKind::kNumber && first != ValueKind::kInteger &&
      first != ValueKind::kDate) {
    place.Refuse(
        fmt::format("objects of a list are told apart by their first attribute: expected "
                    "a text, number or date; '{}' is {}",
                    parts.front().name, parts.front().type));
  }
  for (const ExtractAttribute& part : parts) {
    if (part.kind != ValueKind::kObject && part.kind != ValueKind::kObjects) continue;
    place.Refuse(
        fmt::format("'{}': objects inside the objects of a list are not supported", part.name));
  }
}

}  // namespace banyan
