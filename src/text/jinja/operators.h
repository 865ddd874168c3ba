// Python's operators on values: truth, comparison, arithmetic, membership, iteration, attributes,
// items and slices.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace banyan::jinja {

// Throws kInput with Jinja's wording: "'x' is undefined".
[[noreturn]] void FailUndefined(const Runtime& runtime, const Value& value);

bool Truthy(const Value& value);
bool Equals(Runtime& runtime, const Value& a, const Value& b);
// a < b; throws kInput for types that Python does not order.
bool Less(Runtime& runtime, const Value& a, const Value& b);
bool Contains(Runtime& runtime, const Value& container, const Value& item);
// `op` is "==", "!=", "<", "<=", ">", ">=", "in" or "not in".
bool CompareValues(Runtime& runtime, std::string_view op, const Value& a, const Value& b);
// `op` is "+", "-", "*", "/", "//", "%" or "~"; all but "+" and "~" take numbers only.
Value Arithmetic(Runtime& runtime, std::string_view op, const Value& a, const Value& b);
Value Negate(Runtime& runtime, const Value& value);

// The items that a for loop visits: of a list, characters of a string, keys of a dict, nothing of
// Undefined. Throws kInput for others.
std::vector<Value> Items(Runtime& runtime, const Value& value);
// Python's len(); throws kInput for what has none.
int64_t Length(Runtime& runtime, const Value& value);

// object.name and object[key]: undefined when there is none.
Value GetAttribute(Runtime& runtime, const Value& object, const std::string& name);
Value GetItem(Runtime& runtime, const Value& object, const Value& key);

// begin, end and step of object[begin:end:step]; None where omitted.
struct SliceBounds {
  Value begin;
  Value end;
  Value step;
};
Value GetSlice(Runtime& runtime, const Value& object, const SliceBounds& bounds);

// str() of each item, with the separator between them; every part keeps its origin.
Text JoinTexts(Runtime& runtime, const std::vector<Value>& items, const Text& separator);

}  // namespace banyan::jinja
