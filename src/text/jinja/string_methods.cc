#include "text/jinja/string_methods.h"

#include <algorithm>
#include <unordered_map>

#include "text/jinja/arguments.h"
#include "text/jinja/case.h"
#include "text/jinja/text_ops.h"

namespace banyan::jinja {
namespace {

Value StripSides(Runtime& runtime, const Value& self, const Arguments& arguments, TrimSides sides) {
  const BoundArguments bound(runtime, "strip", arguments, {"chars"});
  const std::string* chars = bound.Missing(0) ? nullptr : &bound.String(0).bytes();
  return Trim(runtime, *self.text(), chars, sides);
}

Value SplitOnSpace(Runtime& runtime, const Text& text, int64_t most) {
  const std::string& bytes = text.bytes();
  std::vector<Value> parts;
  size_t pos = 0;
  while (true) {
    while (pos < bytes.size() && IsSpace(CharAt(bytes, pos))) pos += CharLength(bytes, pos);
    if (pos >= bytes.size()) break;
    size_t end = pos;
    if (most >= 0 && static_cast<int64_t>(parts.size()) >= most) {
      end = bytes.size();
    } else {
      while (end < bytes.size() && !IsSpace(CharAt(bytes, end))) end += CharLength(bytes, end);
    }
    parts.push_back(text.Slice(pos, end));
    pos = most >= 0 && static_cast<int64_t>(parts.size()) > most ? bytes.size() : end;
  }
  return MakeList(runtime, std::move(parts));
}

Value Split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(runtime, "split", arguments, {"sep", "maxsplit"});
  const Text& text = *self.text();
  runtime.Bytes(text.size());
  const int64_t most = bound.Int(1, -1);
  if (bound.Missing(0)) return SplitOnSpace(runtime, text, most);
  const std::string& separator = bound.String(0).bytes();
  if (separator.empty()) runtime.Fail(ErrorKind::kInput, "split() by an empty separator");
  std::vector<Value> parts;
  size_t begin = 0;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t at = text.bytes().find(separator, begin);
    if (at == std::string::npos) break;
    runtime.Step();
    parts.push_back(text.Slice(begin, at));
    begin = at + separator.size();
  }
  parts.push_back(text.Slice(begin, text.size()));
  return MakeList(runtime, std::move(parts));
}

Value RightSplit(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(runtime, "rsplit", arguments, {"sep", "maxsplit"});
  const int64_t most = bound.Int(1, -1);
  if (bound.Missing(0) && most >= 0) {
    runtime.Fail(ErrorKind::kUnsupported, "rsplit() on white space with a maximum");
  }
  if (bound.Missing(0)) return SplitOnSpace(runtime, *self.text(), -1);
  const Text& text = *self.text();
  runtime.Bytes(text.size());
  const std::string& separator = bound.String(0).bytes();
  if (separator.empty()) runtime.Fail(ErrorKind::kInput, "rsplit() by an empty separator");
  std::vector<Value> parts;
  size_t end = text.size();
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    if (end < separator.size()) break;
    const size_t at = text.bytes().rfind(separator, end - separator.size());
    if (at == std::string::npos) break;
    runtime.Step();
    parts.push_back(text.Slice(at + separator.size(), end));
    end = at;
  }
  parts.push_back(text.Slice(0, end));
  std::reverse(parts.begin(), parts.end());
  return MakeList(runtime, std::move(parts));
}

Value SplitLines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(runtime, "splitlines", arguments, {"keepends"});
  const Text& text = *self.text();
  runtime.Bytes(text.size());
  std::vector<Value> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const int32_t c = CharAt(text.bytes(), pos);
    const size_t line_end = pos;
    pos += CharLength(text.bytes(), pos);
    const bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                      c == 0x2028 || c == 0x2029;
    if (!ends) continue;
    if (c == '\r' && pos < text.size() && text.bytes()[pos] == '\n') ++pos;
    lines.push_back(text.Slice(begin, bound.Bool(0, false) ? pos : line_end));
    begin = pos;
  }
  if (begin < text.size()) lines.push_back(text.Slice(begin, text.size()));
  return MakeList(runtime, std::move(lines));
}

// `affix` is a string or a tuple of strings.
template <typename Has>
Value HasAffix(Runtime& runtime, const Arguments& arguments, std::string_view name, Has has) {
  const BoundArguments bound(runtime, name, arguments, {"affix"});
  if (const List* several = bound.Required(0).list(); several != nullptr && several->is_tuple) {
    for (const Value& each : several->items) {
      runtime.Step();
      if (each.text() != nullptr && has(each.text()->bytes())) return Value(true);
    }
    return Value(false);
  }
  return Value(has(bound.String(0).bytes()));
}

Value StartsWith(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return HasAffix(runtime, arguments, "startswith", [&](const std::string& affix) {
    return self.text()->bytes().starts_with(affix);
  });
}

Value EndsWith(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return HasAffix(runtime, arguments, "endswith",
                  [&](const std::string& affix) { return self.text()->bytes().ends_with(affix); });
}

Value ReplaceMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(runtime, "replace", arguments, {"old", "new", "count"});
  return Replace(runtime, *self.text(), bound.String(0), bound.String(1), bound.Int(2, -1));
}

Value JoinMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(runtime, "join", arguments, {"iterable"});
  const std::vector<Value> items = Items(runtime, bound.Required(0));
  for (const Value& item : items) {
    if (item.text() == nullptr) {
      runtime.Fail(ErrorKind::kInput, "join() of a {}, not a string", item.TypeName());
    }
  }
  return JoinTexts(runtime, items, *self.text());
}

Value Find(Runtime& runtime, const Value& self, const Arguments& arguments, bool last) {
  const BoundArguments bound(runtime, "find", arguments, {"sub"});
  runtime.Bytes(self.text()->size());
  const std::string& bytes = self.text()->bytes();
  const size_t at =
      last ? bytes.rfind(bound.String(0).bytes()) : bytes.find(bound.String(0).bytes());
  if (at == std::string::npos) return Value(int64_t{-1});
  return Value::Int(CountChars(std::string_view(bytes).substr(0, at)));
}

Value CountText(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(runtime, "count", arguments, {"value"});
  const std::string& part = bound.String(0).bytes();
  runtime.Bytes(self.text()->size());
  if (part.empty()) return Value::Int(CountChars(self.text()->bytes()) + 1);
  int64_t count = 0;
  for (size_t at = 0; (at = self.text()->bytes().find(part, at)) != std::string::npos;
       at += part.size()) {
    ++count;
  }
  return Value(count);
}

Value RemoveAffix(Runtime& runtime, const Value& self, const Arguments& arguments, bool prefix) {
  const BoundArguments bound(runtime, "removeprefix", arguments, {"affix"});
  const Text& text = *self.text();
  const std::string& affix = bound.String(0).bytes();
  runtime.Bytes(text.size());
  if (prefix && text.bytes().starts_with(affix)) return text.Slice(affix.size(), text.size());
  if (!prefix && text.bytes().ends_with(affix)) return text.Slice(0, text.size() - affix.size());
  return self;
}

}  // namespace

Method FindStringMethod(std::string_view name) {
  static const std::unordered_map<std::string_view, Method> methods = {
      {"strip",
       [](Runtime& r, const Value& s, const Arguments& a) { return StripSides(r, s, a, {}); }},
      {"lstrip", [](Runtime& r, const Value& s,
                    const Arguments& a) { return StripSides(r, s, a, {.right = false}); }},
      {"rstrip", [](Runtime& r, const Value& s,
                    const Arguments& a) { return StripSides(r, s, a, {.left = false}); }},
      {"split", Split},
      {"rsplit", RightSplit},
      {"splitlines", SplitLines},
      {"startswith", StartsWith},
      {"endswith", EndsWith},
      {"replace", ReplaceMethod},
      {"join", JoinMethod},
      {"count", CountText},
      {"find", [](Runtime& r, const Value& s, const Arguments& a) { return Find(r, s, a, false); }},
      {"rfind", [](Runtime& r, const Value& s, const Arguments& a) { return Find(r, s, a, true); }},
      {"removeprefix",
       [](Runtime& r, const Value& s, const Arguments& a) { return RemoveAffix(r, s, a, true); }},
      {"removesuffix",
       [](Runtime& r, const Value& s, const Arguments& a) { return RemoveAffix(r, s, a, false); }},
      {"format", [](Runtime& r, const Value& s,
                    const Arguments& a) { return Value(FormatBraces(r, *s.text(), a)); }},
      {"upper",
       [](Runtime& r, const Value& s, const Arguments&) { return Value(Upper(r, *s.text())); }},
      {"lower",
       [](Runtime& r, const Value& s, const Arguments&) { return Value(Lower(r, *s.text())); }},
      {"title",
       [](Runtime& r, const Value& s, const Arguments&) { return Value(Title(r, *s.text())); }},
      {"capitalize", [](Runtime& r, const Value& s,
                        const Arguments&) { return Value(Capitalize(r, *s.text())); }},
      {"isdigit",
       [](Runtime& r, const Value& s, const Arguments&) { return Value(IsDigits(r, *s.text())); }},
      {"isalpha",
       [](Runtime& r, const Value& s, const Arguments&) { return Value(IsAlpha(r, *s.text())); }},
      {"isspace",
       [](Runtime& r, const Value& s, const Arguments&) {
         const Text rest = Trim(r, *s.text(), nullptr, {});
         return Value(!s.text()->empty() && rest.empty());
       }},
      {"isupper",
       [](Runtime& r, const Value& s, const Arguments&) { return Value(IsUpper(r, *s.text())); }},
      {"islower",
       [](Runtime& r, const Value& s, const Arguments&) { return Value(IsLower(r, *s.text())); }},
  };
  const auto found = methods.find(name);
  return found != methods.end() ? found->second : nullptr;
}

}  // namespace banyan::jinja
