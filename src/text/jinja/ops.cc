#include "text/jinja/ops.h"

#include <cmath>
#include <limits>

#include "text/jinja/print.h"

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

}  // namespace banyan::jinja
