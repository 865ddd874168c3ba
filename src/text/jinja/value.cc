// Values from JSON, and as text: str() and json.dumps.
#include "text/jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
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

namespace {

std::string FloatRepr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::scientific).ptr;
  const std::string_view shortest(buffer, static_cast<size_t>(end - buffer));
  const size_t e = shortest.find('e');
  int exponent = 0;
  const size_t digits_of_exponent = e + (shortest[e + 1] == '+' ? 2 : 1);
  std::from_chars(shortest.data() + digits_of_exponent, end, exponent);
  if (exponent < -4 || exponent >= 16) {
    std::string out(shortest.substr(0, e));
    out += exponent < 0 ? "e-" : "e+";
    const std::string digits = std::to_string(std::abs(exponent));
    return out + (digits.size() < 2 ? "0" : "") + digits;
  }
  const auto fixed =
      std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::fixed).ptr;
  std::string out(buffer, static_cast<size_t>(fixed - buffer));
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::string Scalar(const Runtime& runtime, const Value& value) {
  if (value.IsNone()) return "None";
  if (value.IsBool()) return value.AsBool() ? "True" : "False";
  if (value.IsInt()) return std::to_string(value.AsInt());
  if (value.IsFloat()) return FloatRepr(value.AsDouble());
  runtime.Fail(ErrorKind::kUnsupported, "a {} printed as it is: use tojson", value.TypeName());
}

// Collects text and whether any of it came from the user.
class Printer {
 public:
  explicit Printer(Runtime& runtime) : runtime_(runtime) {}

  Text Take() { return Text(std::move(out_), from_user_); }

  void Json(const Value& value, std::optional<int> indent, int level) {
    runtime_.Step();
    if (const Text* text = value.text()) return JsonString(*text);
    if (const List* list = value.list()) return JsonList(*list, indent, level);
    if (const Dict* dict = value.dict()) return JsonDict(*dict, indent, level);
    Add(JsonScalar(value));
  }

 private:
  void Add(std::string_view bytes) {
    runtime_.Bytes(out_.size() + bytes.size() > runtime_.limits.output_bytes
                       ? out_.size() + bytes.size()
                       : bytes.size());
    out_ += bytes;
  }

  std::string JsonScalar(const Value& value) const {
    if (value.IsNone()) return "null";
    if (value.IsBool()) return value.AsBool() ? "true" : "false";
    if (value.IsFloat() && std::isnan(value.AsDouble())) return "NaN";
    if (value.IsFloat() && std::isinf(value.AsDouble())) {
      return value.AsDouble() > 0 ? "Infinity" : "-Infinity";
    }
    if (value.IsNumber()) return Scalar(runtime_, value);
    runtime_.Fail(ErrorKind::kInput, "a value of type {} has no JSON form", value.TypeName());
  }

  void JsonString(const Text& text) {
    from_user_ |= text.HasUser();
    const std::string& bytes = text.bytes();
    std::string out = "\"";
    for (size_t pos = 0; pos < bytes.size(); pos += CharLength(bytes, pos)) {
      const int32_t c = CharAt(bytes, pos);
      static constexpr std::string_view kFrom = "\"\\\n\r\t\b\f";
      static constexpr std::string_view kTo = "\"\\nrtbf";
      const size_t escape = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
      if (escape != std::string_view::npos) {
        out += '\\';
        out += kTo[escape];
      } else if (c < 0x20) {
        out += fmt::format("\\u{:04x}", c);
      } else {
        out.append(bytes, pos, CharLength(bytes, pos));
      }
    }
    Add(out + "\"");
  }

  // Before each item of a list or object and after the last one.
  void NewLine(std::optional<int> indent, int level) {
    if (!indent) return;
    Add("\n" + std::string(static_cast<size_t>(*indent * level), ' '));
  }

  void JsonList(const List& list, std::optional<int> indent, int level) {
    if (list.items.empty()) return Add("[]");
    Add("[");
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) Add(indent ? "," : ", ");
      NewLine(indent, level + 1);
      Json(list.items[i], indent, level + 1);
    }
    NewLine(indent, level);
    Add("]");
  }

  void JsonDict(const Dict& dict, std::optional<int> indent, int level) {
    if (dict.entries.empty()) return Add("{}");
    Add("{");
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      const auto& [key, value] = dict.entries[i];
      if (i > 0) Add(indent ? "," : ", ");
      NewLine(indent, level + 1);
      JsonString(key.text() != nullptr ? *key.text() : Text(JsonScalar(key)));
      Add(": ");
      Json(value, indent, level + 1);
    }
    NewLine(indent, level);
    Add("}");
  }

  Runtime& runtime_;
  std::string out_;
  bool from_user_ = false;
};

}  // namespace

Text Str(Runtime& runtime, const Value& value) {
  if (const Text* text = value.text()) {
    runtime.Bytes(text->size());
    return *text;
  }
  if (value.IsUndefined()) return Text();
  return Text(Scalar(runtime, value));
}

Text DumpJson(Runtime& runtime, const Value& value, std::optional<int> indent) {
  Printer printer(runtime);
  printer.Json(value, indent, 0);
  return printer.Take();
}

}  // namespace banyan::jinja
