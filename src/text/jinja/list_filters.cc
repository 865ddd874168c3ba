// Filters over sequences and mappings.
#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "text/jinja/arguments.h"
#include "text/jinja/filters.h"
#include "text/jinja/text_ops.h"

namespace banyan::jinja {
namespace {

// "a.b.0" as Jinja's attribute arguments take it.
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

// The arguments behind the first `count`.
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

// map, select and reject take None and other false values for nothing.
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

}  // namespace

Filter FindListFilter(std::string_view name) {
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
  };
  const auto found = filters.find(name);
  return found == filters.end() ? nullptr : found->second;
}

}  // namespace banyan::jinja
