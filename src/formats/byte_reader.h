// Reads little-endian values from untrusted bytes, front to back; no read passes the end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace banyan {

static_assert(std::endian::native == std::endian::little,
              "files are little-endian, and read as such");

class ByteReader {
 public:
  // `name` is the file, for messages.
  ByteReader(std::span<const std::byte> bytes, std::string name)
      : bytes_(bytes), name_(std::move(name)) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  // `what` names the thing that is read: "the number of tensors".
  template <typename T>
  T Read(const char* what) {
    T value;
    std::memcpy(&value, Take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  std::span<const std::byte> Take(std::uint64_t size, const char* what) {
    if (size > remaining()) {
      Throw(ErrorKind::kFormat,
            "{}: cut short: {} at byte {} needs {} bytes, the file has {} bytes left", name_, what,
            position_, size, remaining());
    }
    const auto taken = bytes_.subspan(position_, static_cast<size_t>(size));
    position_ += taken.size();
    return taken;
  }

  // A string as GGUF stores it: 64-bit length, then bytes.
  std::string_view ReadString(const char* what) {
    const auto size = Read<std::uint64_t>(what);
    const auto text = Take(size, what);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  // Throws kFormat when `count` things of at least `min_bytes` each cannot lie in what is left, so
  // that a count can be trusted before anything is allocated.
  void CheckCount(std::uint64_t count, std::uint64_t min_bytes, const char* what) const {
    if (count > remaining() / min_bytes) {
      Throw(ErrorKind::kFormat, "{}: {} is {}, more than the {} bytes that are left can hold",
            name_, what, count, remaining());
    }
  }

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
  size_t position_ = 0;
};

}  // namespace banyan
