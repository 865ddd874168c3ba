#include "text/jinja/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "text/jinja/arguments.h"
#include "text/jinja/case.h"
#include "text/jinja/list_filters.h"
#include "text/jinja/text_ops.h"

namespace banyan::jinja {
namespace {

using Filter = Value (*)(Runtime&, const Value&, const Arguments&);

Value TrimFilter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "trim", arguments, {"chars"});
  const std::string* chars = bound.Missing(0) ? nullptr : &bound.String(0).bytes();
  return Trim(runtime, Str(runtime, input), chars, {});
}

Value ToJson(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "tojson", arguments,
                             {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.Bool(0, false);
  style.sort_keys = bound.Bool(3, false);
  if (!bound.Missing(1)) {
    style.indented = true;
    style.item_separator = ",";
    if (bound.Required(1).text() != nullptr) {
      style.indent = bound.String(1).bytes();
    } else {
      const int64_t width = std::max<int64_t>(bound.Int(1, 0), 0);
      if (width > 1000) runtime.Fail(ErrorKind::kLimit, "tojson with an indent of {}", width);
      style.indent.assign(static_cast<size_t>(width), ' ');
    }
  }
  if (!bound.Missing(2)) {
    const std::vector<Value> pair = Items(runtime, bound.Required(2));
    if (pair.size() != 2) runtime.Fail(ErrorKind::kInput, "tojson: separators must be two");
    style.item_separator = Str(runtime, pair[0]).bytes();
    style.key_separator = Str(runtime, pair[1]).bytes();
  }
  return DumpJson(runtime, input, style);
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

Value Indent(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "indent", arguments, {"width", "first", "blank"});
  Text margin(std::string(4, ' '));
  if (bound.Given(0) && bound.Required(0).text() != nullptr) {
    margin = bound.String(0);
  } else {
    const int64_t width = std::max<int64_t>(bound.Int(0, 4), 0);
    if (width > 1000) runtime.Fail(ErrorKind::kLimit, "an indent of {}", width);
    margin = Text(std::string(static_cast<size_t>(width), ' '));
  }
  const Text text = Str(runtime, input);
  Text out;
  bool first = true;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.bytes().find('\n', begin), text.size());
    runtime.Bytes(margin.size() + end - begin);
    if (out.size() + margin.size() + end - begin > runtime.limits.output_bytes) {
      runtime.Bytes(out.size() + margin.size() + end - begin);
    }
    if (!first) out.Append("\n", false);
    const bool indents = first ? bound.Bool(1, false) : (end > begin || bound.Bool(2, false));
    if (indents) out.Append(margin);
    out.AppendSlice(text, begin, end);
    first = false;
    begin = end + 1;
  }
  return out;
}

Value ToInt(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "int", arguments, {"default", "base"});
  if (input.IsUndefined()) FailUndefined(runtime, input);
  const Value fallback = bound.Or(0, Value(int64_t{0}));
  if (input.IsInt()) return Value(input.AsInt());
  double number = 0;
  if (input.IsFloat()) {
    number = input.AsDouble();
  } else if (input.text() != nullptr) {
    const Text trimmed = Trim(runtime, *input.text(), nullptr, {});
    const std::string& s = trimmed.bytes();
    const auto base = static_cast<int>(std::clamp<int64_t>(bound.Int(1, 10), 2, 36));
    const bool prefixed = (base == 16 && (s.starts_with("0x") || s.starts_with("0X"))) ||
                          (base == 8 && (s.starts_with("0o") || s.starts_with("0O"))) ||
                          (base == 2 && (s.starts_with("0b") || s.starts_with("0B")));
    const char* begin = s.data() + (prefixed ? 2 : s.starts_with("+") ? 1 : 0);
    const char* end = s.data() + s.size();
    int64_t whole = 0;
    const auto parsed = std::from_chars(begin, end, whole, base);
    if (begin != end && parsed.ec == std::errc() && parsed.ptr == end) return Value(whole);
    const auto as_float = std::from_chars(begin, end, number);
    if (begin == end || as_float.ec != std::errc() || as_float.ptr != end) return fallback;
  } else {
    return fallback;
  }
  if (!(std::abs(number) < 9.2e18)) return fallback;
  return Value(static_cast<int64_t>(number));
}

Value ToFloat(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "float", arguments, {"default"});
  if (input.IsUndefined()) FailUndefined(runtime, input);
  const Value fallback = bound.Or(0, Value(0.0));
  if (input.IsNumber()) return Value(input.AsDouble());
  if (input.text() == nullptr) return fallback;
  const Text trimmed = Trim(runtime, *input.text(), nullptr, {});
  const char* begin = trimmed.bytes().data() + (trimmed.bytes().starts_with("+") ? 1 : 0);
  const char* end = trimmed.bytes().data() + trimmed.size();
  double number = 0;
  const auto parsed = std::from_chars(begin, end, number);
  const bool whole = begin != end && parsed.ec == std::errc() && parsed.ptr == end;
  return whole ? Value(number) : fallback;
}

Value Round(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(runtime, "round", arguments, {"precision", "method"});
  if (!input.IsNumber()) {
    if (input.IsUndefined()) FailUndefined(runtime, input);
    runtime.Fail(ErrorKind::kInput, "round of a {}", input.TypeName());
  }
  const std::string method = bound.Given(1) ? bound.String(1).bytes() : std::string("common");
  const int64_t precision = bound.Int(0, 0);
  if (precision < -300 || precision > 300) {
    runtime.Fail(ErrorKind::kLimit, "round to {} places", precision);
  }
  const double x = input.AsDouble();
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return Value(std::ceil(x * scale) / scale);
  if (method == "floor") return Value(std::floor(x * scale) / scale);
  if (method != "common") runtime.Fail(ErrorKind::kInput, "round by the method '{}'", method);
  if (input.IsInt() && precision >= 0) return Value(input.AsInt());
  if (precision < 0) {
    const double rounded = std::nearbyint(x * scale) / scale;
    return input.IsInt() ? Value(static_cast<int64_t>(rounded)) : Value(rounded);
  }
  // Correctly rounded decimals, half to even, as Python's round().
  const std::string decimals = fmt::format("{:.{}f}", x, precision);
  double rounded = 0;
  std::from_chars(decimals.data(), decimals.data() + decimals.size(), rounded);
  return Value(rounded);
}

Value Absolute(Runtime& runtime, const Value& input, const Arguments&) {
  if (input.IsFloat()) return Value(std::abs(input.AsDouble()));
  if (input.IsInt()) return input.AsInt() < 0 ? Negate(runtime, input) : Value(input.AsInt());
  if (input.IsUndefined()) FailUndefined(runtime, input);
  runtime.Fail(ErrorKind::kInput, "abs of a {}", input.TypeName());
}

Value Escape(Runtime& runtime, const Value& input, const Arguments&) {
  Text text = Str(runtime, input);
  static constexpr std::pair<const char*, const char*> kEntities[] = {
      {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}};
  for (const auto& [from, to] : kEntities) {
    text = Replace(runtime, text, Text(from), Text(to), -1);
  }
  return text;
}

Value WordCount(Runtime& runtime, const Value& input, const Arguments&) {
  const Text text = Str(runtime, input);
  int64_t count = 0;
  bool inside = false;
  for (size_t pos = 0; pos < text.size(); pos += CharLength(text.bytes(), pos)) {
    const int32_t c = CharAt(text.bytes(), pos);
    // Word characters: letters, digits, underscore; outside ASCII all but white space.
    const bool word = c >= 0x80 ? !IsSpace(c) : (std::isalnum(c) != 0 || c == '_');
    count += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value(count);
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
      {"indent", Indent},
      {"int", ToInt},
      {"float", ToFloat},
      {"round", Round},
      {"abs", Absolute},
      {"escape", Escape},
      {"e", Escape},
      {"wordcount", WordCount},
      {"upper", OnText<Upper>},
      {"lower", OnText<Lower>},
      {"capitalize", OnText<Capitalize>},
      {"title", OnText<TitleWords>},
      {"string", OnText<Unchanged>},
      {"safe", OnText<Unchanged>},
      {"format",
       [](Runtime& r, const Value& v, const Arguments& a) {
         return FormatPercent(r, Str(r, v), MakeTuple(r, a.positional));
       }},
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
  if (const ListFilter filter = FindListFilter(name)) return filter(runtime, input, arguments);
  runtime.Fail(ErrorKind::kUnsupported, "the filter '{}'", name);
}

}  // namespace banyan::jinja
