// Places and references, then the values that a schema lists.
#include "constrain/schema_document.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace banyan {
namespace {

constexpr int kMaxDepth = 128;
constexpr size_t kMaxKeys = 10000;

std::string EscapedForPointer(std::string_view key) {
  std::string escaped;
  for (const char c : key) {
    if (c == '~') {
      escaped += "~0";
    } else if (c == '/') {
      escaped += "~1";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "%25" → "%".
std::string PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && HexValue(text[i + 1]) >= 0 &&
        HexValue(text[i + 2]) >= 0) {
      decoded += static_cast<char>(HexValue(text[i + 1]) * 16 + HexValue(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

}  // namespace

SchemaPlace SchemaPlace::At(const std::string& key) const {
  return {value_->at(key), pointer_ + "/" + EscapedForPointer(key)};
}

SchemaPlace SchemaPlace::At(size_t index) const {
  return {value_->at(index), fmt::format("{}/{}", pointer_, index)};
}

void SchemaPlace::Refuse(ErrorKind kind, const std::string& reason) const {
  Throw(kind, "schema at #{}: {}", pointer_, reason);
}

std::optional<bool> SchemaPlace::Bool(const char* key) const {
  if (!Has(key)) return std::nullopt;
  const SchemaPlace place = At(key);
  if (!place.value().is_boolean()) place.Refuse(ErrorKind::kInput, "expected true or false");
  return place.value().get<bool>();
}

std::optional<std::string> SchemaPlace::String(const char* key) const {
  if (!Has(key)) return std::nullopt;
  const SchemaPlace place = At(key);
  if (!place.value().is_string()) place.Refuse(ErrorKind::kInput, "expected a string");
  return place.value().get<std::string>();
}

std::optional<std::int64_t> SchemaPlace::Count(const char* key) const {
  const std::optional<double> number = Number(key);
  if (!number) return std::nullopt;
  constexpr double kMost = 1'000'000;
  if (*number < 0 || *number > kMost ||
      *number != static_cast<double>(static_cast<std::int64_t>(*number))) {
    At(key).Refuse(ErrorKind::kInput, "expected a whole number from 0 to 1000000");
  }
  return static_cast<std::int64_t>(*number);
}

std::optional<double> SchemaPlace::Number(const char* key) const {
  if (!Has(key)) return std::nullopt;
  const SchemaPlace place = At(key);
  if (!place.value().is_number()) place.Refuse(ErrorKind::kInput, "expected a number");
  return place.value().get<double>();
}

SchemaPlace SchemaPlace::Array(const char* key) const {
  SchemaPlace place = At(key);
  if (!place.value().is_array() || place.value().empty()) {
    place.Refuse(ErrorKind::kInput, "expected an array with at least one element");
  }
  return place;
}

SchemaPlace SchemaPlace::Object(const char* key) const {
  SchemaPlace place = At(key);
  if (!place.value().is_object()) place.Refuse(ErrorKind::kInput, "expected an object");
  return place;
}

void SchemaPlace::AllowKeywords(const std::vector<std::string_view>& keywords) const {
  static constexpr std::string_view kAnnotations[] = {
      "title",     "description", "default",     "examples", "deprecated", "readOnly",
      "writeOnly", "$defs",       "definitions", "$comment", "$schema",    "$id"};
  for (const auto& [key, value] : value_->items()) {
    if (std::ranges::count(kAnnotations, key) + std::ranges::count(keywords, key) > 0) continue;
    At(key).Refuse(ErrorKind::kUnsupported,
                   fmt::format("the keyword '{}' is not supported here", key));
  }
}

OrderedJson ParseSchemaText(std::string_view text) {
  size_t keys = 0;
  const auto limit = [&keys](int depth, OrderedJson::parse_event_t event, OrderedJson&) {
    const bool opens = event == OrderedJson::parse_event_t::object_start ||
                       event == OrderedJson::parse_event_t::array_start;
    if (opens && depth > kMaxDepth) {
      Throw(ErrorKind::kLimit, "schema: JSON nests deeper than {}", kMaxDepth);
    }
    // Lookup in an ordered object is linear in its keys.
    if (event == OrderedJson::parse_event_t::key && ++keys > kMaxKeys) {
      Throw(ErrorKind::kLimit, "schema: more than {} keys", kMaxKeys);
    }
    return true;
  };
  try {
    return OrderedJson::parse(text.begin(), text.end(), limit);
  } catch (const OrderedJson::exception& e) {
    std::string reason = e.what();
    if (const size_t end = reason.find("] "); end != std::string::npos) reason.erase(0, end + 2);
    Throw(ErrorKind::kFormat, "schema: not valid JSON: {}", reason);
  }
}

SchemaPlace ResolveReference(const OrderedJson& root, const SchemaPlace& place) {
  const std::string reference = *place.String("$ref");
  const SchemaPlace at = place.At("$ref");
  if (!reference.starts_with("#") || (reference.size() > 1 && reference[1] != '/')) {
    at.Refuse(ErrorKind::kUnsupported,
              fmt::format("'{}': only places inside this schema (#/…) are supported", reference));
  }
  const std::string pointer = PercentDecoded(std::string_view(reference).substr(1));
  try {
    return {root.at(OrderedJson::json_pointer(pointer)), pointer};
  } catch (const OrderedJson::exception&) {
    at.Refuse(ErrorKind::kInput, fmt::format("'{}': there is no such place", reference));
  }
}

namespace {

constexpr std::array<std::string_view, 7> kTypes = {"null",   "boolean", "integer", "number",
                                                    "string", "array",   "object"};

bool HasType(const OrderedJson& value, std::string_view type) {
  if (type == "integer") {
    return value.is_number_integer() ||
           (value.is_number() && std::floor(value.get<double>()) == value.get<double>());
  }
  return value.type_name() == type;
}

// A bit per type; integers are numbers.
std::uint32_t BitOf(std::string_view type) {
  if (type == "integer") type = "number";
  const auto at = std::ranges::find(kTypes, type) - kTypes.begin();
  return std::uint32_t{1} << at;
}

// Whether no value is in both lists, whatever the order of keys; false for long lists, which are
// not compared.
bool ShareNone(const std::vector<OrderedJson>& a, const std::vector<OrderedJson>& b) {
  constexpr size_t kMost = 256;
  if (a.size() > kMost || b.size() > kMost) return false;
  const std::set<Json> in_a(a.begin(), a.end());
  return std::ranges::none_of(b, [&](const OrderedJson& value) { return in_a.contains(value); });
}

void RefuseInexact(const OrderedJson& value, const SchemaPlace& place) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.is_number_float() && std::abs(value.get<double>()) >= kExact) {
    place.Refuse(ErrorKind::kUnsupported, "numbers this large are not supported");
  }
  if (value.is_structured()) {
    for (const OrderedJson& part : value) RefuseInexact(part, place);
  }
}

}  // namespace

std::vector<std::string> TypeNames(const SchemaPlace& place) {
  if (!place.Has("type")) {
    if (place.Has("properties")) return {"object"};
    if (place.Has("items")) return {"array"};
    place.Refuse(ErrorKind::kUnsupported,
                 "expected 'type', 'enum', 'const', 'anyOf', 'oneOf' or '$ref'");
  }
  const SchemaPlace at = place.At("type");
  std::vector<std::string> names;
  const auto add = [&](const OrderedJson& name) {
    if (!name.is_string() || std::ranges::count(kTypes, name.get<std::string>()) == 0) {
      at.Refuse(ErrorKind::kInput,
                "expected null, boolean, integer, number, string, array or "
                "object");
    }
    if (std::ranges::count(names, name.get<std::string>()) == 0) {
      names.push_back(name.get<std::string>());
    }
  };
  if (at.value().is_array()) {
    const SchemaPlace list = place.Array("type");
    for (const OrderedJson& name : list.value()) add(name);
  } else {
    add(at.value());
  }
  return names;
}

std::vector<std::string> RequiredNames(const SchemaPlace& place) {
  std::vector<std::string> names;
  if (!place.Has("required")) return names;
  const SchemaPlace at = place.At("required");
  if (!at.value().is_array()) at.Refuse(ErrorKind::kInput, "expected an array of strings");
  for (size_t i = 0; i < at.value().size(); ++i) {
    if (!at.value()[i].is_string()) at.At(i).Refuse(ErrorKind::kInput, "expected a string");
    names.push_back(at.value()[i].get<std::string>());
  }
  return names;
}

std::optional<std::vector<OrderedJson>> SchemaValues::ValuesOf(const SchemaPlace& place) const {
  if (!place.Has("const") && !place.Has("enum")) return std::nullopt;
  std::vector<OrderedJson> values;
  if (place.Has("enum")) {
    const SchemaPlace list = place.Array("enum");
    values.assign(list.value().begin(), list.value().end());
  }
  if (place.Has("const")) {
    const OrderedJson& only = place.value().at("const");
    const bool listed = !place.Has("enum") || std::ranges::count(values, only) > 0;
    values.clear();
    if (listed) values.push_back(only);
  }
  if (place.Has("type")) {
    const std::vector<std::string> types = TypeNames(place);
    std::erase_if(values, [&](const OrderedJson& value) {
      return std::ranges::none_of(types, [&](const auto& type) { return HasType(value, type); });
    });
  }
  for (const OrderedJson& value : values) RefuseInexact(value, place);
  return values;
}

SchemaPlace SchemaValues::Resolved(SchemaPlace place) const {
  while (place.Has("$ref")) place = ResolveReference(root_, place);
  return place;
}

SchemaValues::TypeSet SchemaValues::TypesOf(const SchemaPlace& given) {
  const SchemaPlace place = Resolved(given);
  const auto [entry, is_new] = types_.try_emplace(&place.value(), 0);
  if (!is_new) return entry->second;
  TypeSet types = 0;
  if (const auto values = ValuesOf(place)) {
    for (const OrderedJson& value : *values) types |= BitOf(value.type_name());
  } else {
    const char* alternatives = nullptr;
    for (const char* key : {"anyOf", "oneOf", "allOf"}) {
      if (place.Has(key)) alternatives = key;
    }
    if (alternatives != nullptr) {
      const SchemaPlace list = place.Array(alternatives);
      for (size_t i = 0; i < list.value().size(); ++i) types |= TypesOf(list.At(i));
    } else {
      for (const std::string& name : TypeNames(place)) types |= BitOf(name);
    }
  }
  if (place.Bool("nullable").value_or(false)) types |= BitOf("null");
  return types_[&place.value()] = types;
}

bool SchemaValues::AreDisjoint(const SchemaPlace& first, const SchemaPlace& second) {
  if ((TypesOf(first) & TypesOf(second)) == 0 && !first.Bool("nullable").value_or(false) &&
      !second.Bool("nullable").value_or(false)) {
    return true;
  }
  const SchemaPlace a = Resolved(first), b = Resolved(second);
  const auto a_values = ValuesOf(a), b_values = ValuesOf(b);
  if (a_values && b_values) {
    return ShareNone(*a_values, *b_values);
  }
  const TypeSet object = BitOf("object");
  if (TypesOf(a) != object || TypesOf(b) != object || !a.Has("properties") ||
      !b.Has("properties")) {
    return false;
  }
  const std::vector<std::string> a_required = RequiredNames(a), b_required = RequiredNames(b);
  return std::ranges::any_of(a_required, [&](const std::string& name) {
    if (std::ranges::count(b_required, name) == 0) return false;
    const SchemaPlace a_list = a.Object("properties"), b_list = b.Object("properties");
    if (!a_list.Has(name) || !b_list.Has(name)) return false;
    const auto of_a = ValuesOf(a_list.At(name)), of_b = ValuesOf(b_list.At(name));
    return of_a && of_b && ShareNone(*of_a, *of_b);
  });
}

}  // namespace banyan
