// A set of 128-bit hashes, 16 bytes an entry: what remembers a million records.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace banyan {

using Key128 = std::array<std::uint64_t, 2>;

// Of all parts, each with its length, so that "ab","c" is not "a","bc".
Key128 KeyOf(std::initializer_list<std::string_view> parts);
void AddTo(Key128& sum, const Key128& key);  // 128 bits, modulo 2^128

class KeySet {
 public:
  // False when the key was there already.
  bool Insert(const Key128& key);
  bool Contains(const Key128& key) const;
  std::int64_t size() const { return size_; }

 private:
  static constexpr Key128 kEmpty = {0, 0};
  size_t Find(const Key128& key) const;  // its slot, or the free one where it belongs
  void Grow();

  std::vector<Key128> slots_;  // a power of two; {0, 0} is free
  std::int64_t size_ = 0;
};

}  // namespace banyan
