// Attributes, items and slices of values, with Jinja's fallbacks from one to the other.
#include <algorithm>
#include <limits>

#include "text/jinja/arguments.h"
#include "text/jinja/methods.h"
#include "text/jinja/ops.h"

namespace banyan::jinja {
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

}  // namespace banyan::jinja
