// A vector whose resize() leaves new elements as the memory was: for large ones that are written
// whole, by several threads. Setting them first would be one thread's work, and it would meet every
// page for the first time.
#pragma once

#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace banyan {

template <typename T>
struct UnsetAllocator : std::allocator<T> {
  static_assert(std::is_trivially_default_constructible_v<T>);
  template <typename Other>
  struct rebind {
    using other = UnsetAllocator<Other>;
  };

  template <typename Element>
  void construct(Element* at) noexcept {
    ::new (static_cast<void*>(at)) Element;
  }
  template <typename Element, typename... Arguments>
  void construct(Element* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) Element(std::forward<Arguments>(arguments)...);
  }
};

template <typename T>
using UnsetVector = std::vector<T, UnsetAllocator<T>>;

}  // namespace banyan
