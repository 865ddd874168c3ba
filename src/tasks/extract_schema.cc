// Our own form of a schema. A JSON Schema is read in extract_schema_json.cc.
#include "tasks/extract_schema.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "text/utf8.h"

namespace banyan {
namespace {

constexpr size_t kMostAttributes = 512;  // of one category
constexpr size_t kMostCategories = 10'000;
constexpr int kMostTokens = 4096;  // of one value

// Tokens that a value may have unless somebody says otherwise.
constexpr int kTextTokens = 32, kNumberTokens = 14, kBooleanTokens = 5, kDateTokens = 14;
constexpr int kListTokens = 96, kEnumTokens = 48;

const std::vector<std::string_view> kTypes = {"text", "number", "integer", "boolean",
                                              "date", "enum",   "list"};

std::string InPattern(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}/-").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// What a value looks like, without whether it may be null.
struct ValueType {
  OrderedJson schema;
  std::string words;
  bool is_text = false, ends_bare = false;
  int tokens = kTextTokens;
};

ValueType ReadType(const JsonPlace& place, const std::vector<std::string_view>& other_keys);

ValueType ReadText(const JsonPlace& place) {
  ValueType type{.schema = {{"type", "string"}}, .words = "text", .is_text = true};
  const std::optional<std::int64_t> most = place.Count("max_length", 1, 100'000);
  if (const std::optional<std::string> pattern = place.Text("pattern")) {
    type.schema["pattern"] = "^(?:" + *pattern + ")$";
    type.words = fmt::format("text that matches {}", *pattern);
    type.is_text = false;
  } else {
    type.schema["minLength"] = 1;
  }
  if (most) type.schema["maxLength"] = *most;
  return type;
}

ValueType ReadNumber(const JsonPlace& place, bool whole) {
  ValueType type{.schema = {{"type", whole ? "integer" : "number"}},
                 .words = whole ? "whole number" : "number",
                 .ends_bare = true,
                 .tokens = kNumberTokens};
  if (const auto least = place.Number("minimum")) type.schema["minimum"] = *least;
  if (const auto most = place.Number("maximum")) type.schema["maximum"] = *most;
  if (const std::optional<std::string> unit = place.Text("unit")) {
    type.words += " in " + *unit;
  }
  if (!place.Has("units")) return type;
  const std::vector<std::string> units = place.Texts("units");
  if (place.Has("unit")) place.At("unit").Refuse("'unit' and 'units' together: give one of them");
  for (const char* bound : {"minimum", "maximum"}) {
    if (place.Has(bound)) place.At(bound).Refuse("bounds need one unit: give 'unit'");
  }
  std::vector<std::string> patterns;
  for (const std::string& unit : units) patterns.push_back(InPattern(unit));
  type.schema = {
      {"type", "string"},
      {"pattern", fmt::format("^-?(?:0|[1-9][0-9]{{0,14}}){} (?:{})$",
                              whole ? "" : "(?:\\.[0-9]{1,14})?", fmt::join(patterns, "|"))}};
  type.words += fmt::format(" with its unit ({})", fmt::join(units, ", "));
  type.ends_bare = false;
  return type;
}

ValueType ReadEnum(const JsonPlace& place) {
  const std::vector<std::string> values = place.Texts("values");
  if (std::set<std::string>(values.begin(), values.end()).size() != values.size()) {
    place.At("values").Refuse("a value comes twice");
  }
  ValueType type{.schema = {{"enum", values}},
                 .words = fmt::format("one of {}", fmt::join(values, ", ")),
                 .tokens = kEnumTokens};
  return type;
}

ValueType ReadList(const JsonPlace& place) {
  if (!place.Has("of")) place.Refuse("a list needs 'of': the type of its items");
  const JsonPlace of = place.At("of");
  ValueType item;
  if (of.value().is_string()) {  // the name of a type that needs no more
    const OrderedJson spelled = {{"type", of.value()}};
    item = ReadType(JsonPlace(of.name(), spelled, of.pointer()), {});
  } else {
    item = ReadType(of, {});
  }
  const std::int64_t most = place.Count("max_items", 1, 1000).value_or(16);
  ValueType type{.schema = {{"type", "array"}, {"items", item.schema}, {"maxItems", most}},
                 .words = "list of " + item.words,
                 .tokens = kListTokens};
  return type;
}

ValueType ReadType(const JsonPlace& place, const std::vector<std::string_view>& other_keys) {
  place.ExpectObject();
  const std::string name = place.Text("type").value_or("text");
  std::vector<std::string_view> keys = other_keys;
  const auto allow = [&](std::initializer_list<std::string_view> more) {
    keys.insert(keys.end(), more);
  };
  allow({"type"});
  ValueType type;
  if (name == "text") {
    allow({"pattern", "max_length"});
    type = ReadText(place);
  } else if (name == "number" || name == "integer") {
    allow({"unit", "units", "minimum", "maximum"});
    type = ReadNumber(place, name == "integer");
  } else if (name == "boolean") {
    type = {.schema = {{"type", "boolean"}}, .words = "true or false", .tokens = kBooleanTokens};
  } else if (name == "date") {
    type = {.schema = {{"type", "string"}, {"format", "date"}},
            .words = "date as YYYY-MM-DD",
            .tokens = kDateTokens};
  } else if (name == "enum") {
    allow({"values"});
    type = ReadEnum(place);
  } else if (name == "list") {
    allow({"of", "max_items"});
    type = ReadList(place);
  } else {
    place.At("type").Refuse(
        fmt::format("expected one of {}; found '{}'", fmt::join(kTypes, ", "), name));
  }
  place.AllowKeys(keys);
  return type;
}

ExtractAttribute ReadAttribute(const JsonPlace& place, const std::string& given_name) {
  static const std::vector<std::string_view> kKeys = {"name", "description", "examples", "nullable",
                                                      "max_tokens"};
  place.ExpectObject();
  ExtractAttribute attribute;
  attribute.name = given_name.empty() ? place.Text("name").value_or("") : given_name;
  if (attribute.name.empty()) place.Refuse("an attribute needs a 'name' that is not empty");
  attribute.description = place.Text("description").value_or("");
  ValueType type = ReadType(place, kKeys);
  attribute.nullable = place.Bool("nullable").value_or(true);
  if (place.Has("examples")) {
    const JsonPlace examples = place.At("examples");
    examples.ExpectArray();
    for (const OrderedJson& example : examples.value())
      attribute.examples.push_back(example.dump());
  }
  attribute.type = std::move(type.words);
  attribute.is_text = type.is_text;
  attribute.ends_bare = type.ends_bare;
  attribute.typical_tokens = type.tokens;
  attribute.max_tokens = static_cast<int>(place.Count("max_tokens", 1, kMostTokens).value_or(0));
  if (attribute.nullable) {
    if (type.schema.contains("items")) type.schema["minItems"] = 1;  // none: null
    type.schema = {{"anyOf", {std::move(type.schema), {{"type", "null"}}}}};
  }
  attribute.json_schema = type.schema.dump();
  return attribute;
}

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
  const JsonPlace attributes = place.At("attributes");
  if (attributes.value().is_object()) {
    for (const auto& [key, value] : attributes.value().items()) {
      category.attributes.push_back(ReadAttribute(attributes.At(key), key));
    }
  } else {
    attributes.ExpectArray();
    for (size_t i = 0; i < attributes.value().size(); ++i) {
      category.attributes.push_back(ReadAttribute(attributes.At(i), ""));
    }
  }
  if (category.attributes.empty()) attributes.Refuse("expected at least one attribute");
  if (category.attributes.size() > kMostAttributes) {
    attributes.Refuse(fmt::format("expected at most {} attributes", kMostAttributes));
  }
  std::set<std::string> names;
  for (const ExtractAttribute& attribute : category.attributes) {
    if (names.insert(attribute.name).second) continue;
    attributes.Refuse(fmt::format("the attribute '{}' comes twice", attribute.name));
  }
  return category;
}

}  // namespace

ExtractSchema ParseExtractSchema(std::string_view text, const std::string& name) {
  const OrderedJson root = ParsePlacedJson(text, name);
  const JsonPlace place(name, root, "");
  place.ExpectObject();
  ExtractSchema schema;
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
