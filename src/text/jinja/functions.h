// What templates may call: methods of Python's str and dict, and global functions.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/operators.h"
#include "text/jinja/value.h"

namespace banyan::jinja {

// Binds what a call passed to the parameters of a built-in function.
class BoundArguments {
 public:
  // Throws kInput for more arguments than `names` or a name that is not among them. The arguments
  // must outlive this object.
  BoundArguments(Runtime& runtime, std::string_view function, const Arguments& arguments,
                 std::initializer_list<std::string_view> names)
      : runtime_(runtime), function_(function), names_(names), values_(names.size(), nullptr) {
    if (arguments.positional.size() > names.size()) {
      runtime.Fail(ErrorKind::kInput, "{}() takes at most {} arguments, {} given", function,
                   names.size(), arguments.positional.size());
    }
    for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
    for (const auto& [name, value] : arguments.named) {
      size_t at = 0;
      while (at < names_.size() && names_[at] != name) ++at;
      if (at == names_.size() || values_[at] != nullptr) {
        runtime.Fail(ErrorKind::kInput, "{}() got an unexpected argument '{}'", function, name);
      }
      values_[at] = &value;
    }
  }

  // Absent or None.
  bool Missing(size_t i) const { return values_[i] == nullptr || values_[i]->IsNone(); }
  bool Given(size_t i) const { return values_[i] != nullptr; }

  const Value& Required(size_t i) const {
    if (values_[i] == nullptr) {
      runtime_.Fail(ErrorKind::kInput, "{}() misses its argument '{}'", function_, names_[i]);
    }
    return *values_[i];
  }
  Value Or(size_t i, Value fallback) const {
    return values_[i] == nullptr ? std::move(fallback) : *values_[i];
  }
  int64_t Int(size_t i, int64_t fallback) const {
    if (values_[i] == nullptr) return fallback;
    if (!values_[i]->IsInt()) BadType(i, "an integer");
    return values_[i]->AsInt();
  }
  bool Bool(size_t i, bool fallback) const {
    return values_[i] == nullptr ? fallback : Truthy(*values_[i]);
  }
  const Text& String(size_t i) const {
    const Text* text = Required(i).text();
    if (text == nullptr) BadType(i, "a string");
    return *text;
  }

 private:
  [[noreturn]] void BadType(size_t i, std::string_view wanted) const {
    if (values_[i]->IsUndefined()) FailUndefined(runtime_, *values_[i]);
    runtime_.Fail(ErrorKind::kInput, "{}(): '{}' must be {}, not {}", function_, names_[i], wanted,
                  values_[i]->TypeName());
  }

  Runtime& runtime_;
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

// The method bound to `object`; undefined when its type has none of that name here.
Value FindMethod(Runtime& runtime, const Value& object, const std::string& name);

// The functions that templates may call by name, except namespace().
Variables GlobalFunctions();

}  // namespace banyan::jinja
