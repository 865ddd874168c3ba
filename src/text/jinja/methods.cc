// Methods of list and dict, and the binding of a method to its object.
#include "text/jinja/methods.h"

#include <unordered_map>

#include "text/jinja/arguments.h"
#include "text/jinja/string_methods.h"

namespace banyan::jinja {
namespace {

using Methods = std::unordered_map<std::string_view, Method>;

Method Find(const Methods& methods, std::string_view name) {
  const auto found = methods.find(name);
  return found != methods.end() ? found->second : nullptr;
}

Value RefuseToChange(Runtime& runtime, const Value& self, const Arguments&) {
  runtime.Fail(ErrorKind::kInput, "templates may not change a {}", self.TypeName());
}

Value CountItems(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(runtime, "count", arguments, {"value"});
  int64_t count = 0;
  for (const Value& item : self.list()->items) {
    count += Equals(runtime, item, bound.Required(0)) ? 1 : 0;
  }
  return Value(count);
}

Value IndexMethod(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound(runtime, "index", arguments, {"value"});
  for (size_t i = 0; i < self.list()->items.size(); ++i) {
    if (Equals(runtime, self.list()->items[i], bound.Required(0))) return Value::Int(i);
  }
  runtime.Fail(ErrorKind::kInput, "index() of a value that is not in the list");
}

Method FindListMethod(std::string_view name) {
  static const Methods methods = {
      {"index", IndexMethod},      {"count", CountItems},      {"append", RefuseToChange},
      {"extend", RefuseToChange},  {"insert", RefuseToChange}, {"pop", RefuseToChange},
      {"remove", RefuseToChange},  {"clear", RefuseToChange},  {"sort", RefuseToChange},
      {"reverse", RefuseToChange},
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
      {"pop", RefuseToChange},
      {"update", RefuseToChange},
      {"clear", RefuseToChange},
      {"setdefault", RefuseToChange},
      {"popitem", RefuseToChange},
      {"copy", [](Runtime&, const Value& s, const Arguments&) { return s; }},
  };
  return Find(methods, name);
}

}  // namespace

Value FindMethod(Runtime&, const Value& object, const std::string& name) {
  const Method method = object.text() != nullptr   ? FindStringMethod(name)
                        : object.dict() != nullptr ? FindDictMethod(name)
                        : object.list() != nullptr ? FindListMethod(name)
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

}  // namespace banyan::jinja
