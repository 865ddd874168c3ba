#include "constrain/schema_values.h"

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

// Whether no value is in both lists, whatever the order of keys; false for long lists, where it is
// not looked at.
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
