// A fast hash of many bytes, to notice that a file is not what it was: weights, outputs. It reads
// some gigabytes a second and thread. Bytes that differ in one aligned word of eight always have
// another hash, others but for one chance in 2^64; it is no defence against someone who looks for
// two files with one hash.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace banyan {

class ThreadPool;

using ContentKey = std::array<std::uint64_t, 2>;

class ContentHash {
 public:
  ContentHash();
  ContentHash& Add(std::span<const std::byte> bytes);
  ContentHash& Add(std::string_view text) { return Add(std::as_bytes(std::span(text))); }
  // Of all bytes so far, however they were divided; more may follow.
  ContentKey Value() const;
  std::uint64_t bytes() const { return total_; }

 private:
  static constexpr size_t kStripe = 64;
  void AddStripes(const std::byte* bytes, size_t count);

  std::array<std::uint64_t, kStripe / 8> lanes_;
  std::array<std::byte, kStripe> rest_{};  // the last total_ % kStripe bytes
  std::uint64_t total_ = 0;
};

// The same purpose for bytes that are all there, with all threads; another value than
// ContentHash's.
ContentKey HashInParallel(std::span<const std::byte> bytes, ThreadPool& pool);

std::string ToHex(const ContentKey& key);  // 32 lower-case hexadecimal digits

}  // namespace banyan
