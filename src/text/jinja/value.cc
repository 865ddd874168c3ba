#include "text/jinja/value.h"

#include <algorithm>
#include <limits>

#include "base/json.h"

namespace banyan::jinja {

int Value::Depth() const {
  if (const List* l = list()) return l->depth;
  if (const Dict* d = dict()) return d->depth;
  if (const Loop* l = loop()) return l->items->depth + 1;
  if (const Callable* c = callable()) return c->depth;
  return 0;
}

const char* Value::TypeName() const {
  if (IsUndefined()) return "undefined";
  if (IsNone()) return "None";
  if (IsBool()) return "bool";
  if (IsInt()) return "int";
  if (IsFloat()) return "float";
  if (text() != nullptr) return "str";
  if (list() != nullptr) return list()->is_tuple ? "tuple" : "list";
  if (dict() != nullptr) return "dict";
  if (space() != nullptr) return "namespace";
  if (loop() != nullptr) return "loop";
  return "function";
}

const Value* Dict::Find(std::string_view key) const {
  for (const auto& [k, v] : entries) {
    if (k.text() != nullptr && k.text()->bytes() == key) return &v;
  }
  return nullptr;
}

namespace {

int DepthAbove(Runtime& runtime, int deepest) {
  if (deepest >= runtime.limits.value_depth) {
    runtime.Fail(ErrorKind::kLimit, "values nest deeper than {}", runtime.limits.value_depth);
  }
  return deepest + 1;
}

Value MakeSequence(Runtime& runtime, std::vector<Value> items, bool is_tuple) {
  runtime.Step(static_cast<int64_t>(items.size()));
  int deepest = 0;
  for (const Value& v : items) deepest = std::max(deepest, v.Depth());
  return Value(
      std::make_shared<const List>(List{std::move(items), is_tuple, DepthAbove(runtime, deepest)}));
}

Value ConvertJson(Runtime& runtime, const nlohmann::ordered_json& json, bool from_user, int level) {
  if (level > runtime.limits.value_depth) DepthAbove(runtime, level);
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::boolean:
      return Value(json.get<bool>());
    case nlohmann::ordered_json::value_t::number_unsigned:
      if (json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
        runtime.Fail(ErrorKind::kInput, "the integer {} exceeds 64 bits", json.get<uint64_t>());
      }
      return Value(json.get<int64_t>());
    case nlohmann::ordered_json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case nlohmann::ordered_json::value_t::number_float:
      return Value(json.get<double>());
    case nlohmann::ordered_json::value_t::string: {
      const auto& bytes = json.get_ref<const std::string&>();
      runtime.Bytes(bytes.size());
      return Value(Text(bytes, from_user));
    }
    case nlohmann::ordered_json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) {
        items.push_back(ConvertJson(runtime, item, from_user, level + 1));
      }
      return MakeList(runtime, std::move(items));
    }
    case nlohmann::ordered_json::value_t::object: {
      DictEntries entries;
      entries.reserve(json.size());
      for (const auto& [key, item] : json.items()) {
        entries.emplace_back(Text(key, from_user),
                             ConvertJson(runtime, item, from_user, level + 1));
      }
      return MakeDict(runtime, std::move(entries));
    }
    default:
      return None{};
  }
}

}  // namespace

Value MakeList(Runtime& runtime, std::vector<Value> items) {
  return MakeSequence(runtime, std::move(items), false);
}

Value MakeTuple(Runtime& runtime, std::vector<Value> items) {
  return MakeSequence(runtime, std::move(items), true);
}

Value MakeDict(Runtime& runtime, DictEntries entries) {
  runtime.Step(static_cast<int64_t>(entries.size()));
  int deepest = 0;
  for (const auto& [k, v] : entries) deepest = std::max({deepest, k.Depth(), v.Depth()});
  return Value(
      std::make_shared<const Dict>(Dict{std::move(entries), DepthAbove(runtime, deepest)}));
}

Value FromJson(Runtime& runtime, const nlohmann::ordered_json& json, bool from_user) {
  return ConvertJson(runtime, json, from_user, 0);
}

}  // namespace banyan::jinja
