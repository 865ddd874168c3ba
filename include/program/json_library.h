// nlohmann-json, and the only way to it: here the end of a value takes no memory and throws
// nothing. The library's own moves what is in an array or an object into a new list first, within a
// destructor, where an exception for want of memory ends the program.
#pragma once

#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace banyan::json_library {

// Destructors call each other so deep, twice as deep as untrusted text nests (base/json.h); what is
// deeper is taken apart before.
inline constexpr int kDeepest = 512;
inline constinit thread_local int depth = 0;

template <typename Value>
Value& ValueOf(Value& element) {
  return element;
}
template <typename Name, typename Value>
Value& ValueOf(std::pair<const Name, Value>& element) {
  return element.second;
}

// What there is no memory for stays where it is.
template <typename Value, typename Container>
void TakeApart(Container& container) noexcept {
  try {
    std::vector<Value> values;
    for (auto& element : container) values.push_back(std::move(ValueOf(element)));
    while (!values.empty()) {
      Value value = std::move(values.back());
      values.pop_back();
      if (!value.is_structured()) continue;
      for (Value& inner : value) values.push_back(std::move(inner));
    }
  } catch (const std::bad_alloc&) {
  }
}

template <typename Held>
void Free(Held* held) noexcept {
  if (held == nullptr) return;  // there was no memory for it
  std::destroy_at(held);
  std::allocator<Held>().deallocate(held, 1);
}

template <typename Value, typename Container>
void FreeContainer(Container* container) noexcept {
  if (container == nullptr) return;
  if (++depth > kDeepest) TakeApart<Value>(*container);
  Free(container);
  --depth;
}

template <typename Value, typename Held>
void Destroy(Held& held, nlohmann::detail::value_t type) noexcept {
  using Type = nlohmann::detail::value_t;
  if (type == Type::object) FreeContainer<Value>(held.object);
  if (type == Type::array) FreeContainer<Value>(held.array);
  if (type == Type::string) Free(held.string);
  if (type == Type::binary) Free(held.binary);
}

}  // namespace banyan::json_library

template <>
inline void nlohmann::json::json_value::destroy(value_t type) {
  banyan::json_library::Destroy<nlohmann::json>(*this, type);
}
template <>
inline void nlohmann::ordered_json::json_value::destroy(value_t type) {
  banyan::json_library::Destroy<nlohmann::ordered_json>(*this, type);
}
