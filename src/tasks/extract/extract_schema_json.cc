// JSON values that know their place, for messages; then a JSON Schema of an object as a category:
// what docs/constraints.md lists, property by property.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "tasks/extract/extract_schema.h"
#include "text/unicode.h"

namespace banyan {

namespace {

// As a JSON pointer has it.
std::string PointerKey(const std::string& key) {
  std::string text;
  for (const char c : key) {
    if (c == '~') {
      text += "~0";
    } else if (c == '/') {
      text += "~1";
    } else {
      text += c;
    }
  }
  return text;
}

const char* Describe(const OrderedJson& value) { return value.type_name(); }

}  // namespace

JsonPlace JsonPlace::At(const std::string& key) const {
  return {name_, value_->at(key), pointer_ + "/" + PointerKey(key)};
}

JsonPlace JsonPlace::At(size_t index) const {
  return {name_, value_->at(index), fmt::format("{}/{}", pointer_, index)};
}

void JsonPlace::Refuse(const std::string& reason) const {
  if (pointer_.empty()) Throw(ErrorKind::kUsage, "{}: {}", name_, reason);
  Throw(ErrorKind::kUsage, "{}: at {}: {}", name_, pointer_, reason);
}

void JsonPlace::ExpectObject() const {
  if (!value_->is_object()) Refuse(fmt::format("expected an object, found {}", Describe(*value_)));
}

void JsonPlace::ExpectArray() const {
  if (!value_->is_array()) Refuse(fmt::format("expected a list, found {}", Describe(*value_)));
}

void JsonPlace::AllowKeys(const std::vector<std::string_view>& keys) const {
  for (const auto& [key, value] : value_->items()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    Refuse(fmt::format("'{}' is not known here: expected {}", key, fmt::join(keys, ", ")));
  }
}

std::optional<std::string> JsonPlace::Text(const std::string& key) const {
  if (!Has(key) || value_->at(key).is_null()) return std::nullopt;
  const JsonPlace at = At(key);
  if (!at.value().is_string()) {
    at.Refuse(fmt::format("expected text, found {}", Describe(at.value())));
  }
  return at.value().get<std::string>();
}

std::optional<bool> JsonPlace::Bool(const std::string& key) const {
  if (!Has(key) || value_->at(key).is_null()) return std::nullopt;
  const JsonPlace at = At(key);
  if (!at.value().is_boolean()) {
    at.Refuse(fmt::format("expected true or false, found {}", Describe(at.value())));
  }
  return at.value().get<bool>();
}

std::optional<double> JsonPlace::Number(const std::string& key) const {
  if (!Has(key) || value_->at(key).is_null()) return std::nullopt;
  const JsonPlace at = At(key);
  if (!at.value().is_number() || !std::isfinite(at.value().get<double>())) {
    at.Refuse(fmt::format("expected a number, found {}", Describe(at.value())));
  }
  return at.value().get<double>();
}

std::optional<std::int64_t> JsonPlace::Count(const std::string& key, std::int64_t least,
                                             std::int64_t most) const {
  if (!Has(key) || value_->at(key).is_null()) return std::nullopt;
  const JsonPlace at = At(key);
  if (!at.value().is_number_integer() || at.value() < least || at.value() > most) {
    at.Refuse(fmt::format("expected a whole number from {} to {}, found {}", least, most,
                          at.value().dump()));
  }
  return at.value().get<std::int64_t>();
}

std::vector<std::string> JsonPlace::Texts(const std::string& key) const {
  if (!Has(key)) Refuse(fmt::format("expected '{}': a list of texts", key));
  const JsonPlace at = At(key);
  at.ExpectArray();
  if (at.value().empty()) at.Refuse("expected at least one text");
  std::vector<std::string> texts;
  for (size_t i = 0; i < at.value().size(); ++i) {
    const OrderedJson& value = at.value()[i];
    if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
      at.At(i).Refuse(fmt::format("expected a text that is not empty, found {}", value.dump()));
    }
    texts.push_back(value.get<std::string>());
  }
  return texts;
}

OrderedJson ParsePlacedJson(std::string_view text, const std::string& name) {
  constexpr int kMostDepth = 64;
  constexpr size_t kMostValues = 100'000;
  if (!IsValidUtf8(text)) Throw(ErrorKind::kUsage, "{}: not valid UTF-8", name);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  size_t values = 0;
  const auto limit = [&](int depth, OrderedJson::parse_event_t event, OrderedJson&) {
    const bool opens = event == OrderedJson::parse_event_t::object_start ||
                       event == OrderedJson::parse_event_t::array_start;
    if (opens && depth > kMostDepth) {
      Throw(ErrorKind::kUsage, "{}: JSON nests deeper than {}", name, kMostDepth);
    }
    if (event == OrderedJson::parse_event_t::value || event == OrderedJson::parse_event_t::key) {
      if (++values > kMostValues) {
        Throw(ErrorKind::kUsage, "{}: more than {} values", name, kMostValues);
      }
    }
    return true;
  };
  try {
    return OrderedJson::parse(text, limit);
  } catch (const OrderedJson::parse_error& e) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(e.byte, text.size()));
    const auto line = 1 + std::count(text.begin(), end, '\n');
    Throw(ErrorKind::kUsage, "{}: line {} (byte {}): not valid JSON", name, line, e.byte);
  } catch (const OrderedJson::exception&) {
    Throw(ErrorKind::kUsage, "{}: not valid JSON", name);
  }
}

namespace {

constexpr int kMostListTokens = 96, kMostTextTokens = 32, kMostShortTokens = 20;
constexpr int kDeepestProperties = 8;

// The JSON types that a schema allows; references are followed to a limited depth.
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

// The schema of a value that is not null: references are followed, alternatives that are null are
// left out. The schema itself where that is not one schema.
const OrderedJson& CoreOf(const OrderedJson& root, const OrderedJson& schema, int depth = 0) {
  if (!schema.is_object() || depth > 16) return schema;
  if (schema.contains("$ref") && schema.at("$ref").is_string()) {
    const std::string reference = schema.at("$ref").get<std::string>();
    try {
      if (reference.starts_with("#")) {
        return CoreOf(root, root.at(OrderedJson::json_pointer(reference.substr(1))), depth + 1);
      }
    } catch (const OrderedJson::exception&) {
      return schema;  // refused with its place when the values' texts are made
    }
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    if (!schema.contains(key) || !schema.at(key).is_array()) continue;
    const OrderedJson* only = nullptr;
    for (const OrderedJson& entry : schema.at(key)) {
      if (entry.is_object() && entry.contains("type") && entry.at("type") == "null") continue;
      if (only != nullptr) return schema;
      only = &entry;
    }
    return only == nullptr ? schema : CoreOf(root, *only, depth + 1);
  }
  return schema;
}

bool HasAny(const OrderedJson& schema, std::initializer_list<const char*> keys) {
  return schema.is_object() &&
         std::ranges::any_of(keys, [&](const char* key) { return schema.contains(key); });
}

// What the model is to write for a value of the schema; kSchema where only the schema can say.
ValueKind KindOf(const OrderedJson& core, std::set<std::string> types) {
  types.erase("null");
  if (core.contains("enum") && core.at("enum").is_array()) {
    const bool texts = std::ranges::all_of(core.at("enum"), [](const OrderedJson& value) {
      return value.is_string() || value.is_null();
    });
    return texts ? ValueKind::kEnum : ValueKind::kSchema;
  }
  if (types.size() != 1 || HasAny(core, {"const", "anyOf", "oneOf", "allOf", "$ref"})) {
    return ValueKind::kSchema;
  }
  const std::string& type = *types.begin();
  if (type == "string") {
    if (!core.contains("format")) return ValueKind::kText;
    return core.at("format") == "date" ? ValueKind::kDate : ValueKind::kSchema;
  }
  if (type == "number") return ValueKind::kNumber;
  if (type == "integer") return ValueKind::kInteger;
  if (type == "boolean") return ValueKind::kBoolean;
  if (type == "object" && core.contains("properties")) return ValueKind::kObject;
  if (type == "array" && core.contains("items")) return ValueKind::kList;
  return ValueKind::kSchema;
}

int TypicalTokens(ValueKind kind, const std::set<std::string>& types) {
  if (kind == ValueKind::kList || types.contains("array") || types.contains("object")) {
    return kMostListTokens;
  }
  return types.contains("string") ? kMostTextTokens : kMostShortTokens;
}

std::set<std::string> RequiredOf(const JsonPlace& place) {
  std::set<std::string> required;
  if (!place.Has("required")) return required;
  const JsonPlace list = place.At("required");
  list.ExpectArray();
  for (size_t i = 0; i < list.value().size(); ++i) {
    const OrderedJson& name = list.value()[i];
    if (!name.is_string() || !place.value().at("properties").contains(name.get<std::string>())) {
      list.At(i).Refuse(fmt::format("expected the name of a property, found {}", name.dump()));
    }
    required.insert(name.get<std::string>());
  }
  return required;
}

std::vector<ExtractAttribute> ReadProperties(const JsonPlace& root, const JsonPlace& object,
                                             int depth);

// The value's kind, and what goes with it. An object or list that only the schema can describe is
// kSchema as a whole.
void ReadKind(const JsonPlace& root, const JsonPlace& core, int depth,
              ExtractAttribute& attribute) {
  const std::set<std::string> types = TypesOf(root.value(), core.value());
  attribute.kind = KindOf(core.value(), types);
  attribute.type = WordsFor(core.value(), types);
  attribute.typical_tokens = TypicalTokens(attribute.kind, types);
  if (attribute.kind == ValueKind::kEnum) {
    for (const OrderedJson& value : core.value().at("enum")) {
      if (value.is_string()) attribute.allowed.push_back(value.get<std::string>());
    }
  } else if (attribute.kind == ValueKind::kObject) {
    if (depth >= kDeepestProperties) core.Refuse("objects nest deeper than 8");
    attribute.parts = ReadProperties(root, core, depth + 1);
  } else if (attribute.kind == ValueKind::kList) {
    const OrderedJson& items = CoreOf(root.value(), core.value().at("items"));
    ExtractAttribute item;
    ReadKind(root, JsonPlace(core.name(), items, core.pointer() + "/items"), depth, item);
    attribute.max_items = static_cast<int>(core.Count("maxItems", 1, 1000).value_or(16));
    if (item.kind == ValueKind::kObject) {
      attribute.kind = ValueKind::kObjects;
      attribute.parts = std::move(item.parts);
      attribute.type = WordsForObjects(attribute.parts);
      CheckObjects(core, attribute.parts);
    } else if (item.kind == ValueKind::kList || item.kind == ValueKind::kSchema ||
               item.kind == ValueKind::kObjects) {
      attribute.kind = ValueKind::kSchema;
    } else {
      attribute.type = "list of " + item.type;
      attribute.parts.push_back(std::move(item));
    }
  }
}

ExtractAttribute ReadProperty(const JsonPlace& root, const JsonPlace& place,
                              const std::string& name, bool required, int depth) {
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
  ReadKind(root, JsonPlace(place.name(), CoreOf(root.value(), given), place.pointer()), depth,
           attribute);
  const bool may_be_null = types.contains("null");
  attribute.nullable = may_be_null || !required;
  attribute.leave_out_null = !required && !may_be_null;
  OrderedJson schema = given;
  if (attribute.leave_out_null) schema = {{"anyOf", {given, {{"type", "null"}}}}};
  for (const char* key : {"$defs", "definitions"}) {
    if (root.Has(key) && !schema.contains(key)) schema[key] = root.value().at(key);
  }
  attribute.json_schema = schema.dump();
  return attribute;
}

std::vector<ExtractAttribute> ReadProperties(const JsonPlace& root, const JsonPlace& object,
                                             int depth) {
  const std::set<std::string> required = RequiredOf(object);
  const JsonPlace properties = object.At("properties");
  properties.ExpectObject();
  std::vector<ExtractAttribute> attributes;
  for (const auto& [name, value] : properties.value().items()) {
    if (name.empty()) properties.Refuse("a property's name is empty");
    attributes.push_back(
        ReadProperty(root, properties.At(name), name, required.contains(name), depth));
  }
  if (attributes.empty()) properties.Refuse("expected at least one property");
  if (attributes.size() > 512) properties.Refuse("expected at most 512 properties");
  return attributes;
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
  ExtractCategory category;
  category.name = place.Text("title").value_or("");
  category.description = place.Text("description").value_or("");
  category.attributes = ReadProperties(place, place, 0);
  return category;
}

}  // namespace banyan
