// The project's two hashes. SHA-256 names and fingerprints: KV segments, model files, answers. The
// content hash is faster and only detects that large files have changed. And Base64.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX: hash.cc alone includes its headers

namespace banyan {

class ThreadPool;

using Digest = std::array<std::uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  Sha256& Add(std::span<const std::byte> bytes);
  Sha256& Add(std::string_view text) { return Add(std::as_bytes(std::span(text))); }
  // The value's eight bytes, little-endian.
  Sha256& Add(std::uint64_t value);
  // The digest of everything added. Do not use the object afterwards.
  Digest Finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// 64 lower-case hexadecimal digits.
std::string ToHex(const Digest& digest);

// The first eight bytes as a number, for hash tables.
std::uint64_t Prefix64(const Digest& digest);

using ContentKey = std::array<std::uint64_t, 2>;

// Hashes several gigabytes per second and thread. A change within one aligned 8-byte word always
// changes the hash; any other change does, but for one chance in 2^64. Not collision-resistant
// against an attacker.
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

// A content hash of bytes in memory that uses all threads. The value differs from ContentHash's.
ContentKey HashInParallel(std::span<const std::byte> bytes, ThreadPool& pool);

std::string ToHex(const ContentKey& key);  // 32 lower-case hexadecimal digits

// RFC 4648, with padding.
std::string Base64(std::string_view bytes);

}  // namespace banyan
