// Equality and order, arithmetic, iteration, then attributes, items and slices.
#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja/functions.h"
#include "text/jinja/value.h"

namespace banyan::jinja {

void FailUndefined(const Runtime& runtime, const Value& value) {
  const std::string name = value.undefined_name();
  runtime.Fail(ErrorKind::kInput, "{} is undefined", name.empty() ? "a value" : "'" + name + "'");
}

bool Truthy(const Value& value) {
  if (value.IsUndefined() || value.IsNone()) return false;
  if (value.IsNumber()) return value.AsDouble() != 0;
  if (const Text* text = value.text()) return !text->empty();
  if (const List* list = value.list()) return !list->items.empty();
  if (const Dict* dict = value.dict()) return !dict->entries.empty();
  return true;
}

namespace {

bool EqualDicts(Runtime& runtime, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    bool found = false;
    for (const auto& [other_key, other] : b.entries) {
      if (!Equals(runtime, key, other_key)) continue;
      found = Equals(runtime, value, other);
      break;
    }
    if (!found) return false;
  }
  return true;
}

bool EqualLists(Runtime& runtime, const List& a, const List& b) {
  if (a.is_tuple != b.is_tuple || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!Equals(runtime, a.items[i], b.items[i])) return false;
  }
  return true;
}

[[noreturn]] void FailOperands(const Runtime& runtime, std::string_view op, const Value& a,
                               const Value& b) {
  if (a.IsUndefined()) FailUndefined(runtime, a);
  if (b.IsUndefined()) FailUndefined(runtime, b);
  runtime.Fail(ErrorKind::kInput, "unsupported operand types for {}: {} and {}", op, a.TypeName(),
               b.TypeName());
}

}  // namespace

bool Equals(Runtime& runtime, const Value& a, const Value& b) {
  runtime.Step();
  if (a.IsInt() && b.IsInt()) return a.AsInt() == b.AsInt();
  if (a.IsNumber() && b.IsNumber()) return a.AsDouble() == b.AsDouble();
  if (a.text() != nullptr && b.text() != nullptr) {
    if (a.text()->size() != b.text()->size()) return false;
    runtime.Bytes(a.text()->size());
    return a.text()->bytes() == b.text()->bytes();
  }
  if (a.list() != nullptr && b.list() != nullptr) return EqualLists(runtime, *a.list(), *b.list());
  if (a.dict() != nullptr && b.dict() != nullptr) return EqualDicts(runtime, *a.dict(), *b.dict());
  if (a.IsUndefined() || a.IsNone()) return a.IsUndefined() ? b.IsUndefined() : b.IsNone();
  if (a.space() != nullptr) return a.space() == b.space();
  if (a.callable() != nullptr) return a.callable() == b.callable();
  return a.loop() != nullptr && a.loop() == b.loop();
}

bool Less(Runtime& runtime, const Value& a, const Value& b) {
  runtime.Step();
  if (a.IsInt() && b.IsInt()) return a.AsInt() < b.AsInt();
  if (a.IsNumber() && b.IsNumber()) return a.AsDouble() < b.AsDouble();
  if (a.text() != nullptr && b.text() != nullptr) {
    runtime.Bytes(std::min(a.text()->size(), b.text()->size()));
    return a.text()->bytes() < b.text()->bytes();  // UTF-8 sorts by code point
  }
  FailOperands(runtime, "<", a, b);
}

bool Contains(Runtime& runtime, const Value& container, const Value& item) {
  if (const Text* text = container.text()) {
    if (item.text() == nullptr) {
      if (item.IsUndefined()) FailUndefined(runtime, item);
      runtime.Fail(ErrorKind::kInput, "'in <string>' needs a string, not {}", item.TypeName());
    }
    runtime.Bytes(text->size());
    return text->bytes().find(item.text()->bytes()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    for (const auto& [key, value] : dict->entries) {
      if (Equals(runtime, key, item)) return true;
    }
    return false;
  }
  if (const List* list = container.list()) {
    for (const Value& each : list->items) {
      if (Equals(runtime, each, item)) return true;
    }
    return false;
  }
  if (container.IsUndefined()) return false;
  runtime.Fail(ErrorKind::kInput, "a value of type {} cannot be searched with 'in'",
               container.TypeName());
}

bool CompareValues(Runtime& runtime, std::string_view op, const Value& a, const Value& b) {
  if (op == "==") return Equals(runtime, a, b);
  if (op == "!=") return !Equals(runtime, a, b);
  if (op == "in") return Contains(runtime, b, a);
  if (op == "not in") return !Contains(runtime, b, a);
  const bool nan =
      a.IsNumber() && b.IsNumber() && (std::isnan(a.AsDouble()) || std::isnan(b.AsDouble()));
  if (nan) return false;
  if (op == "<") return Less(runtime, a, b);
  if (op == ">") return Less(runtime, b, a);
  if (op == "<=") return !Less(runtime, b, a);
  return !Less(runtime, a, b);
}

namespace {

Value IntegerArithmetic(Runtime& runtime, std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else {
    overflow = a == std::numeric_limits<int64_t>::min() && b == -1;
    if (!overflow) {
      const int64_t remainder = a % b;
      const bool borrow = remainder != 0 && (remainder < 0) != (b < 0);  // Python rounds down
      result = op == "//" ? a / b - (borrow ? 1 : 0) : remainder + (borrow ? b : 0);
    }
  }
  if (overflow) runtime.Fail(ErrorKind::kUnsupported, "an integer beyond 64 bits");
  return Value(result);
}

Value NumberArithmetic(Runtime& runtime, std::string_view op, const Value& a, const Value& b) {
  const bool divides = op == "/" || op == "//" || op == "%";
  if (divides && b.AsDouble() == 0) runtime.Fail(ErrorKind::kInput, "division by zero");
  if (a.IsInt() && b.IsInt() && op != "/") {
    return IntegerArithmetic(runtime, op, a.AsInt(), b.AsInt());
  }
  const double x = a.AsDouble();
  const double y = b.AsDouble();
  if (op == "+") return Value(x + y);
  if (op == "-") return Value(x - y);
  if (op == "*") return Value(x * y);
  if (op == "/") return Value(x / y);
  double remainder = std::fmod(x, y);
  if (remainder != 0 && (remainder < 0) != (y < 0)) remainder += y;
  return Value(op == "%" ? remainder : std::round((x - remainder) / y));
}

Value Join(Runtime& runtime, const Text& a, const Text& b) {
  runtime.Bytes(a.size() + b.size());
  Text out = a;
  out.Append(b);
  return Value(std::move(out));
}

}  // namespace

Value Arithmetic(Runtime& runtime, std::string_view op, const Value& a, const Value& b) {
  if (op == "~") return Join(runtime, Str(runtime, a), Str(runtime, b));
  if (a.IsNumber() && b.IsNumber()) return NumberArithmetic(runtime, op, a, b);
  if (op == "+" && a.text() != nullptr && b.text() != nullptr) {
    return Join(runtime, *a.text(), *b.text());
  }
  const List* x = a.list();
  const List* y = b.list();
  if (op == "+" && x != nullptr && y != nullptr && x->is_tuple == y->is_tuple) {
    runtime.Step(static_cast<int64_t>(x->items.size() + y->items.size()));
    std::vector<Value> items = x->items;
    items.insert(items.end(), y->items.begin(), y->items.end());
    return x->is_tuple ? MakeTuple(runtime, std::move(items)) : MakeList(runtime, std::move(items));
  }
  FailOperands(runtime, op, a, b);
}

Value Negate(Runtime& runtime, const Value& value) {
  if (value.IsFloat()) return Value(-value.AsDouble());
  if (value.IsInt()) return IntegerArithmetic(runtime, "-", 0, value.AsInt());
  if (value.IsUndefined()) FailUndefined(runtime, value);
  runtime.Fail(ErrorKind::kInput, "bad operand type for unary -: {}", value.TypeName());
}

std::vector<Value> Items(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  if (const List* list = value.list()) {
    items = list->items;
  } else if (const Text* text = value.text()) {
    runtime.Step(static_cast<int64_t>(text->size()));
    for (size_t pos = 0; pos < text->size();) {
      const size_t length = CharLength(text->bytes(), pos);
      items.push_back(text->Slice(pos, pos + length));
      pos += length;
    }
  } else if (const Dict* dict = value.dict()) {
    for (const auto& entry : dict->entries) items.push_back(entry.first);
  } else if (!value.IsUndefined()) {
    runtime.Fail(ErrorKind::kInput, "a value of type {} cannot be iterated", value.TypeName());
  }
  runtime.Step(static_cast<int64_t>(items.size()));
  return items;
}

int64_t Length(Runtime& runtime, const Value& value) {
  if (const Text* text = value.text()) {
    runtime.Bytes(text->size());
    return static_cast<int64_t>(CountChars(text->bytes()));
  }
  if (const List* list = value.list()) return static_cast<int64_t>(list->items.size());
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->entries.size());
  if (const Loop* loop = value.loop()) return static_cast<int64_t>(loop->items->items.size());
  if (value.IsUndefined()) return 0;
  runtime.Fail(ErrorKind::kInput, "a value of type {} has no length", value.TypeName());
}

namespace {

Value Missing(const std::string& name) { return Value::MakeUndefined(name); }

Value LoopAttribute(const Runtime& runtime, const Value& object, const std::string& name) {
  const Loop& loop = *object.loop();
  const size_t size = loop.items->items.size();
  if (name == "index") return Value::Int(loop.index + 1);
  if (name == "index0") return Value::Int(loop.index);
  if (name == "revindex") return Value::Int(size - loop.index);
  if (name == "revindex0") return Value::Int(size - loop.index - 1);
  if (name == "first") return Value(loop.index == 0);
  if (name == "last") return Value(loop.index + 1 == size);
  if (name == "length") return Value::Int(size);
  if (name == "previtem") {
    return loop.index > 0 ? loop.items->items[loop.index - 1] : Missing("loop.previtem");
  }
  if (name == "nextitem") {
    return loop.index + 1 < size ? loop.items->items[loop.index + 1] : Missing("loop.nextitem");
  }
  runtime.Fail(ErrorKind::kUnsupported, "loop.{}", name);
}

// Null when there is none.
const Value* FindKey(Runtime& runtime, const Dict& dict, const Value& key) {
  if (const Text* text = key.text()) {
    runtime.Step(static_cast<int64_t>(dict.entries.size() / 8));
    return dict.Find(text->bytes());
  }
  for (const auto& [k, v] : dict.entries) {
    if (Equals(runtime, k, key)) return &v;
  }
  return nullptr;
}

}  // namespace

Value GetAttribute(Runtime& runtime, const Value& object, const std::string& name) {
  if (object.IsUndefined()) FailUndefined(runtime, object);
  if (object.loop() != nullptr) return LoopAttribute(runtime, object, name);
  if (const Namespace* space = object.space()) {
    const auto found = space->attributes.find(name);
    return found == space->attributes.end() ? Missing(name) : found->second;
  }
  Value method = FindMethod(runtime, object, name);
  if (!method.IsUndefined()) return method;
  if (const Dict* dict = object.dict()) {
    if (const Value* value = FindKey(runtime, *dict, Value::String(name))) return *value;
  }
  return Missing(name);
}

Value GetItem(Runtime& runtime, const Value& object, const Value& key) {
  if (object.IsUndefined()) FailUndefined(runtime, object);
  if (const Dict* dict = object.dict()) {
    if (const Value* value = FindKey(runtime, *dict, key)) return *value;
  } else if (key.IsInt() && (object.list() != nullptr || object.text() != nullptr)) {
    const int64_t size = Length(runtime, object);
    int64_t index = key.AsInt();
    if (index < 0) index += size;
    if (index < 0 || index >= size) return Missing(fmt::format("element {}", key.AsInt()));
    if (const List* list = object.list()) return list->items[static_cast<size_t>(index)];
    return GetSlice(runtime, object, {Value(index), Value(index + 1), None{}});
  }
  if (key.text() == nullptr) return Missing(Str(runtime, key).bytes());
  if (object.loop() != nullptr || object.space() != nullptr || object.dict() == nullptr) {
    return GetAttribute(runtime, object, key.text()->bytes());
  }
  Value method = FindMethod(runtime, object, key.text()->bytes());
  return method.IsUndefined() ? Missing(key.text()->bytes()) : method;
}

Value GetSlice(Runtime& runtime, const Value& object, const SliceBounds& bounds) {
  const Text* text = object.text();
  const List* list = object.list();
  if (object.IsUndefined()) FailUndefined(runtime, object);
  if (text == nullptr && list == nullptr)
    return Missing("slice of a " + std::string(object.TypeName()));
  const int64_t size = Length(runtime, object);
  const auto bound = [&](const Value& value, int64_t fallback) {
    if (value.IsNone()) return fallback;
    if (value.IsUndefined()) FailUndefined(runtime, value);
    if (!value.IsInt()) {
      runtime.Fail(ErrorKind::kInput, "a slice's bound must be an integer, not {}",
                   value.TypeName());
    }
    return value.AsInt();
  };
  // Any larger step acts like this one.
  const int64_t step = std::clamp<int64_t>(bound(bounds.step, 1), -size - 1, size + 1);
  if (step == 0) runtime.Fail(ErrorKind::kInput, "a slice's step is 0");
  const auto clip = [&](int64_t at) {
    if (at < 0) at = std::max(at, -size - 1) + size;
    return step > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
  };
  const int64_t begin =
      bounds.begin.IsNone() ? (step > 0 ? 0 : size - 1) : clip(bound(bounds.begin, 0));
  const int64_t end = bounds.end.IsNone() ? (step > 0 ? size : -1) : clip(bound(bounds.end, 0));

  if (list != nullptr) {
    std::vector<Value> items;
    for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
      items.push_back(list->items[static_cast<size_t>(i)]);
    }
    return list->is_tuple ? MakeTuple(runtime, std::move(items))
                          : MakeList(runtime, std::move(items));
  }
  runtime.Bytes(text->size());
  std::vector<size_t> starts;  // byte offset of each character, and the end
  for (size_t pos = 0; pos < text->size(); pos += CharLength(text->bytes(), pos)) {
    starts.push_back(pos);
  }
  starts.push_back(text->size());
  if (step == 1) {
    return begin < end ? Value(text->Slice(starts[static_cast<size_t>(begin)],
                                           starts[static_cast<size_t>(end)]))
                       : Value(Text());
  }
  Text out;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    out.AppendSlice(*text, starts[static_cast<size_t>(i)], starts[static_cast<size_t>(i) + 1]);
  }
  return Value(std::move(out));
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

}  // namespace banyan::jinja
