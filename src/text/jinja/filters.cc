#include "text/jinja/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "text/jinja/arguments.h"
#include "text/jinja/case.h"
#include "text/jinja/text_ops.h"

namespace banyan::jinja {
namespace {

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

const std::unordered_map<std::string_view, Filter>& ScalarFilters() {
  static const std::unordered_map<std::string_view, Filter> filters = {
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
  if (const auto found = ScalarFilters().find(name); found != ScalarFilters().end()) {
    return found->second(runtime, input, arguments);
  }
  if (const Filter filter = FindListFilter(name)) return filter(runtime, input, arguments);
  runtime.Fail(ErrorKind::kUnsupported, "the filter '{}'", name);
}

}  // namespace banyan::jinja
