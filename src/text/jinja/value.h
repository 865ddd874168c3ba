// Values of the template interpreter, with the semantics of Python's built-in types and Jinja's
// default Undefined. Lists and dicts never change once made (Transformers renders in an immutable
// sandbox); only namespaces do.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/text.h"

namespace banyan::jinja {

class Value;

// What a call or filter received.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Undefined {
  std::string name;  // as the error message of a forbidden use shows it
};
struct None {
  bool operator==(const None&) const = default;
};

struct List;
struct Dict;
struct Namespace;
struct Loop;
struct Callable;

class Value {
 public:
  Value() = default;              // undefined
  Value(None) : data_(None{}) {}  // NOLINT(google-explicit-constructor)
  explicit Value(bool b) : data_(b) {}
  explicit Value(int64_t i) : data_(i) {}
  explicit Value(double d) : data_(d) {}
  Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}  // NOLINT
  explicit Value(std::shared_ptr<const List> list) : data_(std::move(list)) {}
  explicit Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  explicit Value(std::shared_ptr<Namespace> space) : data_(std::move(space)) {}
  explicit Value(std::shared_ptr<const Loop> loop) : data_(std::move(loop)) {}
  explicit Value(std::shared_ptr<const Callable> callable) : data_(std::move(callable)) {}

  static Value MakeUndefined(std::string name) {
    Value v;
    v.data_ = std::make_shared<const Undefined>(Undefined{std::move(name)});
    return v;
  }
  static Value String(std::string bytes) { return Value(Text(std::move(bytes))); }
  static Value Int(size_t n) { return Value(static_cast<int64_t>(n)); }

  bool IsUndefined() const { return Is<std::shared_ptr<const Undefined>>(); }
  bool IsNone() const { return Is<None>(); }
  bool IsBool() const { return Is<bool>(); }
  bool IsFloat() const { return Is<double>(); }
  // A bool is an integer too, as in Python.
  bool IsInt() const { return Is<int64_t>() || IsBool(); }
  bool IsNumber() const { return IsInt() || IsFloat(); }

  // Empty when nothing is known of it. REQUIRES: IsUndefined().
  std::string undefined_name() const {
    const auto& undefined = std::get<std::shared_ptr<const Undefined>>(data_);
    return undefined == nullptr ? std::string() : undefined->name;
  }
  bool AsBool() const { return std::get<bool>(data_); }
  int64_t AsInt() const { return IsBool() ? int64_t{AsBool()} : std::get<int64_t>(data_); }
  double AsDouble() const {
    return IsFloat() ? std::get<double>(data_) : static_cast<double>(AsInt());
  }
  // Null when the value is of another type.
  const Text* text() const { return Pointer<const Text>(); }
  const List* list() const { return Pointer<const List>(); }
  const Dict* dict() const { return Pointer<const Dict>(); }
  Namespace* space() const { return Pointer<Namespace>(); }
  const Loop* loop() const { return Pointer<const Loop>(); }
  const Callable* callable() const { return Pointer<const Callable>(); }

  // Containers inside containers: 0 for a scalar. Namespaces count as 0: the evaluator owns them.
  int Depth() const;
  const char* TypeName() const;

 private:
  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(data_);
  }
  template <typename T>
  T* Pointer() const {
    const auto* p = std::get_if<std::shared_ptr<T>>(&data_);
    return p == nullptr ? nullptr : p->get();
  }

  std::variant<std::shared_ptr<const Undefined>, None, bool, int64_t, double,
               std::shared_ptr<const Text>, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, std::shared_ptr<const Loop>,
               std::shared_ptr<const Callable>>
      data_;
};

struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  int depth = 1;
};

using DictEntries = std::vector<std::pair<Value, Value>>;  // in insertion order, keys distinct
struct Dict {
  DictEntries entries;
  int depth = 1;

  const Value* Find(std::string_view key) const;  // null when absent
};

struct Namespace {
  std::map<std::string, Value, std::less<>> attributes;
};

// The `loop` variable; the evaluator moves `index` on.
struct Loop {
  std::shared_ptr<const List> items;
  mutable size_t index = 0;
};

struct Callable {
  std::string name;
  std::function<Value(Runtime&, const Arguments&)> call;
  int depth = 0;  // of what the function holds
};

using Variables = std::map<std::string, Value, std::less<>>;

// These throw kLimit when containers nest too deeply.
Value MakeList(Runtime& runtime, std::vector<Value> items);
Value MakeTuple(Runtime& runtime, std::vector<Value> items);
Value MakeDict(Runtime& runtime, DictEntries entries);

// Strings and keys get the origin `from_user`. Throws kLimit for deep nesting, kInput for integers
// beyond 64 bits.
Value FromJson(Runtime& runtime, const nlohmann::ordered_json& json, bool from_user);

// As Python's str() of a string, number, bool or None; Undefined gives "". Throws kUnsupported for
// others.
Text Str(Runtime& runtime, const Value& value);

// As Python's json.dumps with ensure_ascii off. `indent`: spaces per level; nullopt: one line. The
// result is user text when any string inside is.
Text DumpJson(Runtime& runtime, const Value& value, std::optional<int> indent);

}  // namespace banyan::jinja
