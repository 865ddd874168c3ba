// Filters over sequences, filters over single values, then tests.
#include "text/jinja/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "text/jinja/functions.h"
#include "text/jinja/operators.h"
#include "text/jinja/text.h"

namespace banyan::jinja {
namespace {

using Filter = Value (*)(Runtime&, const Value&, const Arguments&);

// Follows a path such as "a.b.0", as Jinja's attribute arguments spell it.
Value AttributePath(Runtime& runtime, Value object, const Value& path) {
  if (path.IsInt()) return GetItem(runtime, object, path);
  if (path.text() == nullptr) runtime.Fail(ErrorKind::kInput, "an attribute must be a string");
  const std::string& bytes = path.text()->bytes();
  for (size_t begin = 0; begin <= bytes.size();) {
    runtime.Step();
    const size_t end = std::min(bytes.find('.', begin), bytes.size());
    const std::string part = bytes.substr(begin, end - begin);
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number =
        !part.empty() && parsed.ec == std::errc() && parsed.ptr == part.data() + part.size();
    object = GetItem(runtime, object, number ? Value(index) : Value::String(part));
    begin = end + 1;
  }
  return object;
}

Value JoinFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "join", arguments, {"d", "attribute"});
  std::vector<Value> items = Items(runtime, input);
  if (!bound.Missing(1)) {
    for (Value& item : items) item = AttributePath(runtime, item, bound.Required(1));
  }
  return JoinTexts(runtime, items, Str(runtime, bound.Or(0, Text())));
}

Value First(Runtime& runtime, const Value& input, const Arguments&) {
  if (input.list() != nullptr) {
    return input.list()->items.empty() ? Value() : input.list()->items.front();
  }
  const std::vector<Value> items = Items(runtime, input);
  return items.empty() ? Value::MakeUndefined("first of nothing") : items.front();
}

Value Last(Runtime& runtime, const Value& input, const Arguments&) {
  if (input.list() != nullptr) {
    return input.list()->items.empty() ? Value() : input.list()->items.back();
  }
  const std::vector<Value> items = Items(runtime, input);
  return items.empty() ? Value::MakeUndefined("last of nothing") : items.back();
}

Value ToList(Runtime& runtime, const Value& input, const Arguments&) {
  return MakeList(runtime, Items(runtime, input));
}

Value ItemsFilter(Runtime& runtime, const Value& input, const Arguments&) {
  if (input.IsUndefined()) return MakeList(runtime, {});
  if (input.dict() == nullptr) {
    runtime.Fail(ErrorKind::kInput, "items of a {}, not a dict", input.TypeName());
  }
  std::vector<Value> pairs;
  for (const auto& [key, value] : input.dict()->entries) {
    pairs.push_back(MakeTuple(runtime, {key, value}));
  }
  return MakeList(runtime, std::move(pairs));
}

// The arguments after the first `count`.
Arguments Rest(const Arguments& arguments, size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

const std::string& NameAt(Runtime& runtime, const Arguments& arguments, size_t at) {
  if (at >= arguments.positional.size() || arguments.positional[at].text() == nullptr) {
    runtime.Fail(ErrorKind::kInput, "a filter's or test's name is missing");
  }
  return arguments.positional[at].text()->bytes();
}

// map, select and reject treat None and other false values as empty.
std::vector<Value> ItemsIfAny(Runtime& runtime, const Value& input) {
  return Truthy(input) ? Items(runtime, input) : std::vector<Value>();
}

Value Map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  std::vector<Value> items = ItemsIfAny(runtime, input);
  if (arguments.positional.empty()) {
    const BoundArguments bound(runtime, "map", arguments, {"attribute", "default"});
    for (Value& item : items) {
      item = AttributePath(runtime, item, bound.Required(0));
      if (item.IsUndefined()) item = bound.Or(1, item);
    }
  } else {
    const std::string& name = NameAt(runtime, arguments, 0);
    const Arguments rest = Rest(arguments, 1);
    for (Value& item : items) item = ApplyFilter(runtime, name, item, rest);
  }
  return MakeList(runtime, std::move(items));
}

struct Selection {
  bool by_attribute;
  bool keep;  // what a test that holds means
};

Value SelectItems(Runtime& runtime, const Value& input, const Arguments& arguments,
                  Selection selection) {
  const size_t skipped = selection.by_attribute ? 1 : 0;
  if (arguments.positional.size() < skipped) {
    runtime.Fail(ErrorKind::kInput, "selectattr() misses its attribute");
  }
  const bool tests = arguments.positional.size() > skipped;
  const Arguments rest = tests ? Rest(arguments, skipped + 1) : Arguments();
  std::vector<Value> kept;
  for (const Value& item : ItemsIfAny(runtime, input)) {
    const Value subject =
        selection.by_attribute ? AttributePath(runtime, item, arguments.positional[0]) : item;
    const bool holds = tests
                           ? ApplyTest(runtime, NameAt(runtime, arguments, skipped), subject, rest)
                           : Truthy(subject);
    if (holds == selection.keep) kept.push_back(item);
  }
  return MakeList(runtime, std::move(kept));
}

template <bool kByAttribute, bool kKeep>
Value Select(Runtime& runtime, const Value& input, const Arguments& arguments) {
  return SelectItems(runtime, input, arguments, {kByAttribute, kKeep});
}

Value TrimFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "trim", arguments, {"chars"});
  const std::string* chars = bound.Missing(0) ? nullptr : &bound.String(0).bytes();
  return Trim(runtime, Str(runtime, input), chars, {});
}

// As Transformers sets it up: keys in their order, characters as they are.
Value ToJson(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "tojson", arguments, {"ensure_ascii", "indent"});
  if (bound.Bool(0, false)) runtime.Fail(ErrorKind::kUnsupported, "tojson with ensure_ascii");
  if (bound.Missing(1)) return DumpJson(runtime, input, std::nullopt);
  const int64_t width = std::max<int64_t>(bound.Int(1, 0), 0);
  if (width > 1000) runtime.Fail(ErrorKind::kLimit, "tojson with an indent of {}", width);
  return DumpJson(runtime, input, static_cast<int>(width));
}

Value Default(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "default", arguments, {"default_value", "boolean"});
  const bool use = input.IsUndefined() || (bound.Bool(1, false) && !Truthy(input));
  return use ? bound.Or(0, Text()) : input;
}

Value ReplaceFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "replace", arguments, {"old", "new", "count"});
  const int64_t count = bound.Missing(2) ? -1 : bound.Int(2, -1);
  return Replace(runtime, Str(runtime, input), Str(runtime, bound.Required(0)),
                 Str(runtime, bound.Required(1)), count);
}

Value ToInt(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "int", arguments, {"default"});
  if (input.IsUndefined()) FailUndefined(runtime, input);
  const Value fallback = bound.Or(0, Value(int64_t{0}));
  if (input.IsInt()) return Value(input.AsInt());
  double number = 0;
  if (input.IsFloat()) {
    number = input.AsDouble();
  } else if (input.text() != nullptr) {
    const Text trimmed = Trim(runtime, *input.text(), nullptr, {});
    const char* begin = trimmed.bytes().data() + (trimmed.bytes().starts_with("+") ? 1 : 0);
    const char* end = trimmed.bytes().data() + trimmed.size();
    int64_t whole = 0;
    const auto parsed = std::from_chars(begin, end, whole);
    if (begin != end && parsed.ec == std::errc() && parsed.ptr == end) return Value(whole);
    const auto as_float = std::from_chars(begin, end, number);
    if (begin == end || as_float.ec != std::errc() || as_float.ptr != end) return fallback;
  } else {
    return fallback;
  }
  if (!(std::abs(number) < 9.2e18)) return fallback;
  return Value(static_cast<int64_t>(number));
}

template <Text (*kChange)(Runtime&, const Text&)>
Value OnText(Runtime& runtime, const Value& input, const Arguments&) {
  return kChange(runtime, Str(runtime, input));
}

Text Unchanged(Runtime&, const Text& text) { return text; }

const std::unordered_map<std::string_view, Filter>& Filters() {
  static const std::unordered_map<std::string_view, Filter> filters = {
      {"join", JoinFilter},
      {"first", First},
      {"last", Last},
      {"list", ToList},
      {"items", ItemsFilter},
      {"map", Map},
      {"select", Select<false, true>},
      {"reject", Select<false, false>},
      {"selectattr", Select<true, true>},
      {"rejectattr", Select<true, false>},
      {"trim", TrimFilter},
      {"tojson", ToJson},
      {"default", Default},
      {"d", Default},
      {"replace", ReplaceFilter},
      {"int", ToInt},
      {"upper", OnText<Upper>},
      {"lower", OnText<Lower>},
      {"capitalize", OnText<Capitalize>},
      {"string", OnText<Unchanged>},
      {"safe", OnText<Unchanged>},
      {"length", [](Runtime& r, const Value& v, const Arguments&) { return Value(Length(r, v)); }},
      {"count", [](Runtime& r, const Value& v, const Arguments&) { return Value(Length(r, v)); }},
  };
  return filters;
}

}  // namespace

Value ApplyFilter(Runtime& runtime, const std::string& name, const Value& input,
                  const Arguments& arguments) {
  runtime.Step();
  const DepthScope depth(runtime);  // map('map', …) comes back here
  if (const auto found = Filters().find(name); found != Filters().end()) {
    return found->second(runtime, input, arguments);
  }
  runtime.Fail(ErrorKind::kUnsupported, "the filter '{}'", name);
}

// Tests: what may follow "is".

namespace {

using Test = bool (*)(Runtime&, const Value&, const Arguments&);

template <char const* kOperator>
bool Comparison(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const BoundArguments bound(runtime, "is", arguments, {"other"});
  return CompareValues(runtime, kOperator, value, bound.Required(0));
}

constexpr char kEqual[] = "==";
constexpr char kNotEqual[] = "!=";
constexpr char kIn[] = "in";

bool IsSequence(const Value& v) {
  return v.text() != nullptr || v.list() != nullptr || v.dict() != nullptr || v.IsUndefined();
}

const std::unordered_map<std::string_view, Test>& Tests() {
  static const std::unordered_map<std::string_view, Test> tests = {
      {"defined", [](Runtime&, const Value& v, const Arguments&) { return !v.IsUndefined(); }},
      {"undefined", [](Runtime&, const Value& v, const Arguments&) { return v.IsUndefined(); }},
      {"none", [](Runtime&, const Value& v, const Arguments&) { return v.IsNone(); }},
      {"boolean", [](Runtime&, const Value& v, const Arguments&) { return v.IsBool(); }},
      {"true", [](Runtime&, const Value& v, const Arguments&) { return v.IsBool() && v.AsBool(); }},
      {"false",
       [](Runtime&, const Value& v, const Arguments&) { return v.IsBool() && !v.AsBool(); }},
      {"integer",
       [](Runtime&, const Value& v, const Arguments&) { return v.IsInt() && !v.IsBool(); }},
      {"float", [](Runtime&, const Value& v, const Arguments&) { return v.IsFloat(); }},
      {"number", [](Runtime&, const Value& v, const Arguments&) { return v.IsNumber(); }},
      {"string", [](Runtime&, const Value& v, const Arguments&) { return v.text() != nullptr; }},
      {"mapping", [](Runtime&, const Value& v, const Arguments&) { return v.dict() != nullptr; }},
      {"sequence", [](Runtime&, const Value& v, const Arguments&) { return IsSequence(v); }},
      {"iterable", [](Runtime&, const Value& v,
                      const Arguments&) { return IsSequence(v) || v.loop() != nullptr; }},
      {"equalto", Comparison<kEqual>},
      {"eq", Comparison<kEqual>},
      {"ne", Comparison<kNotEqual>},
      {"in", Comparison<kIn>},
  };
  return tests;
}

}  // namespace

bool ApplyTest(Runtime& runtime, const std::string& name, const Value& input,
               const Arguments& arguments) {
  const auto found = Tests().find(name);
  if (found == Tests().end()) runtime.Fail(ErrorKind::kUnsupported, "the test '{}'", name);
  return found->second(runtime, input, arguments);
}

}  // namespace banyan::jinja
