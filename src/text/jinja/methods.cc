#include "text/jinja/methods.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "text/jinja/arguments.h"
#include "text/jinja/case.h"

namespace banyan::jinja {

Text Trim(Runtime& runtime, const Text& text, const std::string* chars, TrimSides sides) {
  runtime.Bytes(text.size());
  if (chars != nullptr) runtime.Step(static_cast<int64_t>(chars->size()));
  // A long set of characters costs time for each one dropped.
  if (chars != nullptr && chars->size() > 64) {
    runtime.Step(static_cast<int64_t>(text.size() * (chars->size() / 64)));
  }
  const ByteRange range = TrimmedRange(text.bytes(), chars, sides);
  return text.Slice(range.begin, range.end);
}

Text Replace(Runtime& runtime, const Text& text, const Text& from, const Text& to, int64_t count) {
  const std::string& bytes = text.bytes();
  Text out;
  const auto add = [&](const Text& part, size_t begin, size_t end) {
    runtime.Bytes(end - begin);
    if (out.size() + end - begin > runtime.limits.output_bytes) runtime.Bytes(out.size() + end);
    out.AppendSlice(part, begin, end);
  };
  runtime.Bytes(text.size());
  size_t done = 0;
  for (size_t search = 0; count != 0; --count) {
    runtime.Step();
    size_t at = bytes.find(from.bytes(), search);
    if (at == std::string::npos) break;
    add(text, done, at);
    add(to, 0, to.size());
    done = at + from.size();
    search = done;
    if (from.empty()) {  // between every two characters
      if (done >= bytes.size()) break;
      search = done + CharLength(bytes, done);
    }
  }
  add(text, done, bytes.size());
  return out;
}

Text JoinTexts(Runtime& runtime, const std::vector<Value>& items, const Text& separator) {
  Text out;
  for (size_t i = 0; i < items.size(); ++i) {
    const Text part = Str(runtime, items[i]);
    const size_t size = out.size() + separator.size() + part.size();
    if (size > runtime.limits.output_bytes) runtime.Bytes(size);
    runtime.Bytes(separator.size() + part.size());
    if (i > 0) out.Append(separator);
    out.Append(part);
  }
  return out;
}

namespace {

using Method = Value (*)(Runtime&, const Value&, const Arguments&);
using Methods = std::unordered_map<std::string_view, Method>;

// str.

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

Value CountMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(runtime, "count", arguments, {"value"});
  int64_t count = 0;
  if (const List* list = self.list()) {
    for (const Value& item : list->items) count += Equals(runtime, item, bound.Required(0)) ? 1 : 0;
    return Value(count);
  }
  const std::string& part = bound.String(0).bytes();
  runtime.Bytes(self.text()->size());
  if (part.empty()) return Value::Int(CountChars(self.text()->bytes()) + 1);
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

const Methods& StringMethods() {
  static const Methods methods = {
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
      {"count", CountMethod},
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
  return methods;
}

// list and dict.

Value RefuseToChange(Runtime& runtime, const Value& self, const Arguments&) {
  runtime.Fail(ErrorKind::kInput, "templates may not change a {}", self.TypeName());
}

Value IndexMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(runtime, "index", arguments, {"value"});
  for (size_t i = 0; i < self.list()->items.size(); ++i) {
    if (Equals(runtime, self.list()->items[i], bound.Required(0))) return Value::Int(i);
  }
  runtime.Fail(ErrorKind::kInput, "index() of a value that is not in the list");
}

const Methods& ListMethods() {
  static const Methods methods = {
      {"index", IndexMethod},      {"count", CountMethod},     {"append", RefuseToChange},
      {"extend", RefuseToChange},  {"insert", RefuseToChange}, {"pop", RefuseToChange},
      {"remove", RefuseToChange},  {"clear", RefuseToChange},  {"sort", RefuseToChange},
      {"reverse", RefuseToChange},
  };
  return methods;
}

Value DictItems(Runtime& runtime, const Value& self, const Arguments&) {
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries) {
    items.push_back(MakeTuple(runtime, {key, value}));
  }
  return MakeList(runtime, std::move(items));
}

Value DictKeys(Runtime& runtime, const Value& self, const Arguments&) {
  return MakeList(runtime, Items(runtime, self));
}

Value DictValues(Runtime& runtime, const Value& self, const Arguments&) {
  std::vector<Value> values;
  for (const auto& entry : self.dict()->entries) values.push_back(entry.second);
  return MakeList(runtime, std::move(values));
}

Value DictGet(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(runtime, "get", arguments, {"key", "default"});
  for (const auto& [key, value] : self.dict()->entries) {
    if (Equals(runtime, key, bound.Required(0))) return value;
  }
  return bound.Or(1, None{});
}

const Methods& DictMethods() {
  static const Methods methods = {
      {"items", DictItems},
      {"keys", DictKeys},
      {"values", DictValues},
      {"get", DictGet},
      {"pop", RefuseToChange},
      {"update", RefuseToChange},
      {"clear", RefuseToChange},
      {"setdefault", RefuseToChange},
      {"popitem", RefuseToChange},
      {"copy", [](Runtime&, const Value& s, const Arguments&) { return s; }},
  };
  return methods;
}

}  // namespace

Value FindMethod(Runtime&, const Value& object, const std::string& name) {
  const Methods* methods = object.text() != nullptr   ? &StringMethods()
                           : object.dict() != nullptr ? &DictMethods()
                           : object.list() != nullptr ? &ListMethods()
                                                      : nullptr;
  if (methods == nullptr) return Value();
  const auto found = methods->find(name);
  if (found == methods->end()) return Value();
  const Method method = found->second;
  auto callable = std::make_shared<Callable>();
  callable->name = name;
  callable->depth = object.Depth() + 1;
  callable->call = [object, method](Runtime& runtime, const Arguments& arguments) {
    return method(runtime, object, arguments);
  };
  return Value(std::shared_ptr<const Callable>(std::move(callable)));
}

}  // namespace banyan::jinja
