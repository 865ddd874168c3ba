// Methods of str, methods of dict, then the global functions.
#include "text/jinja/functions.h"

#include <algorithm>
#include <ctime>
#include <unordered_map>

#include "text/jinja/operators.h"
#include "text/jinja/text.h"

namespace banyan::jinja {

namespace {

using Method = Value (*)(Runtime&, const Value& self, const Arguments&);
using Methods = std::unordered_map<std::string_view, Method>;

Method Find(const Methods& methods, std::string_view name) {
  const auto found = methods.find(name);
  return found != methods.end() ? found->second : nullptr;
}

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

Value FindText(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(runtime, "find", arguments, {"sub"});
  runtime.Bytes(self.text()->size());
  const std::string& bytes = self.text()->bytes();
  const size_t at = bytes.find(bound.String(0).bytes());
  if (at == std::string::npos) return Value(int64_t{-1});
  return Value::Int(CountChars(std::string_view(bytes).substr(0, at)));
}

Method FindStringMethod(std::string_view name) {
  static const Methods methods = {
      {"strip",
       [](Runtime& r, const Value& s, const Arguments& a) { return StripSides(r, s, a, {}); }},
      {"lstrip", [](Runtime& r, const Value& s,
                    const Arguments& a) { return StripSides(r, s, a, {.right = false}); }},
      {"rstrip", [](Runtime& r, const Value& s,
                    const Arguments& a) { return StripSides(r, s, a, {.left = false}); }},
      {"split", Split},
      {"startswith", StartsWith},
      {"endswith", EndsWith},
      {"replace", ReplaceMethod},
      {"join", JoinMethod},
      {"find", FindText},
      {"upper",
       [](Runtime& r, const Value& s, const Arguments&) { return Value(Upper(r, *s.text())); }},
      {"lower",
       [](Runtime& r, const Value& s, const Arguments&) { return Value(Lower(r, *s.text())); }},
      {"capitalize", [](Runtime& r, const Value& s,
                        const Arguments&) { return Value(Capitalize(r, *s.text())); }},
  };
  return Find(methods, name);
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

Method FindDictMethod(std::string_view name) {
  static const Methods methods = {
      {"items", DictItems},
      {"keys", DictKeys},
      {"values", DictValues},
      {"get", DictGet},
  };
  return Find(methods, name);
}

}  // namespace

Value FindMethod(Runtime&, const Value& object, const std::string& name) {
  const Method method = object.text() != nullptr   ? FindStringMethod(name)
                        : object.dict() != nullptr ? FindDictMethod(name)
                                                   : nullptr;
  if (method == nullptr) return Value();
  auto callable = std::make_shared<Callable>();
  callable->name = name;
  callable->depth = object.Depth() + 1;
  callable->call = [object, method](Runtime& runtime, const Arguments& arguments) {
    return method(runtime, object, arguments);
  };
  return Value(std::shared_ptr<const Callable>(std::move(callable)));
}

// Functions that templates call by name.

namespace {

Value Range(Runtime& runtime, const Arguments& arguments) {
  const BoundArguments bound(runtime, "range", arguments, {"start", "stop", "step"});
  const bool single = !bound.Given(1);
  bound.Required(0);
  const int64_t begin = single ? 0 : bound.Int(0, 0);
  const int64_t end = single ? bound.Int(0, 0) : bound.Int(1, 0);
  const int64_t step = bound.Int(2, 1);
  if (step == 0) runtime.Fail(ErrorKind::kInput, "range() with step 0");
  std::vector<Value> items;
  // __int128 so that no bound can overflow.
  for (__int128 i = begin; step > 0 ? i < end : i > end; i += step) {
    if (static_cast<int64_t>(items.size()) >= runtime.limits.range_items) {
      runtime.Fail(ErrorKind::kLimit, "range() of more than {} items", runtime.limits.range_items);
    }
    items.emplace_back(static_cast<int64_t>(i));
  }
  return MakeList(runtime, std::move(items));
}

Value RaiseException(Runtime& runtime, const Arguments& arguments) {
  const BoundArguments bound(runtime, "raise_exception", arguments, {"message"});
  runtime.Fail(ErrorKind::kInput, "{}", Str(runtime, bound.Required(0)).bytes());
}

Value StrftimeNow(Runtime& runtime, const Arguments& arguments) {
  const BoundArguments bound(runtime, "strftime_now", arguments, {"format"});
  // A last character tells an empty result from one that did not fit.
  const std::string format = bound.String(0).bytes() + ".";
  std::string buffer(std::min<size_t>(format.size() * 32 + 256, 65536), '\0');
  const size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &runtime.date);
  if (size == 0) runtime.Fail(ErrorKind::kLimit, "strftime_now() of a long format");
  buffer.resize(size - 1);
  return Value::String(std::move(buffer));
}

}  // namespace

Variables GlobalFunctions() {
  Variables out;
  const auto add = [&](const char* name, Value (*function)(Runtime&, const Arguments&)) {
    out.emplace(name, Value(std::make_shared<const Callable>(Callable{name, function})));
  };
  add("range", Range);
  add("raise_exception", RaiseException);
  add("strftime_now", StrftimeNow);
  return out;
}

}  // namespace banyan::jinja
