// SHA-256, the one hash of the project: it names KV segments, checks model files and fingerprints
// answers. Fast enough for tokens and text (hundreds of MB/s), and never to be worried about.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace banyan {

using Digest = std::array<std::uint8_t, 32>;

class Sha256 {
 public:
  Sha256& Add(std::span<const std::byte> bytes);
  Sha256& Add(std::string_view text);
  // The value's eight bytes, little-endian.
  Sha256& Add(std::uint64_t value);
  // The digest of all that was added. The object is spent afterwards.
  Digest Finish();

 private:
  void Compress(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                         0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
  std::array<std::uint8_t, 64> buffer_{};
  size_t buffered_ = 0;
  std::uint64_t total_ = 0;  // bytes
};

// 64 lower-case hexadecimal digits.
std::string ToHex(const Digest& digest);

// The first eight bytes as a number, for hash tables.
std::uint64_t Prefix64(const Digest& digest);

}  // namespace banyan
