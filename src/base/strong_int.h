// Integers that do not mix: a NodeId is no PageId, and no arithmetic happens by accident.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace banyan {

template <typename Tag>
struct StrongInt {
  std::int32_t value = -1;  // -1: none

  constexpr StrongInt() = default;
  constexpr explicit StrongInt(std::int32_t v) : value(v) {}
  constexpr bool valid() const { return value >= 0; }
  constexpr size_t index() const { return static_cast<size_t>(value); }
  friend constexpr auto operator<=>(StrongInt, StrongInt) = default;
};

using NodeId = StrongInt<struct NodeTag>;      // a node of the forest
using PageId = StrongInt<struct PageTag>;      // a page of KV memory
using StreamId = StrongInt<struct StreamTag>;  // an answer being written

}  // namespace banyan

template <typename Tag>
struct std::hash<banyan::StrongInt<Tag>> {
  size_t operator()(banyan::StrongInt<Tag> id) const noexcept {
    return std::hash<std::int32_t>()(id.value);
  }
};
