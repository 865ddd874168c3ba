// SHA-256 and Base64 by OpenSSL's libcrypto, and the content hash.
#include "base/hash.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"

namespace banyan {

namespace {

// Fetched once: EVP_sha256() would look the algorithm up at every initialisation.
const EVP_MD* Sha256Algorithm() {
  static const EVP_MD* const algorithm = [] {
    const EVP_MD* const fetched = ::EVP_MD_fetch(nullptr, "SHA256", nullptr);
    return fetched != nullptr ? fetched : throw std::bad_alloc();
  }();
  return algorithm;
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { ::EVP_MD_CTX_free(context); }

// Only memory can be missing: libcrypto asks for it itself.
Sha256::Sha256() : context_(::EVP_MD_CTX_new()) {
  if (context_ == nullptr || ::EVP_DigestInit_ex(context_.get(), Sha256Algorithm(), nullptr) != 1) {
    throw std::bad_alloc();
  }
}

Sha256& Sha256::Add(std::span<const std::byte> bytes) {
  BANYAN_CHECK(::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  return *this;
}

Sha256& Sha256::Add(std::uint64_t value) {
  std::array<std::byte, 8> bytes;
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  return Add(bytes);
}

Digest Sha256::Finish() {
  Digest digest;
  BANYAN_CHECK(::EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
  return digest;
}

std::string ToHex(const Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::uint64_t Prefix64(const Digest& digest) {
  std::uint64_t value;
  std::memcpy(&value, digest.data(), sizeof(value));
  return value;
}

ContentHash::ContentHash() {
  for (size_t i = 0; i < lanes_.size(); ++i) lanes_[i] = 0x9e3779b97f4a7c15u * (i + 1);
}

// Each step is a bijection of the word for a given lane, and of the lane for a given word. So a
// single changed word always changes the result.
void ContentHash::AddStripes(const std::byte* bytes, size_t count) {
  constexpr std::uint64_t kOdd = 0xd6e8feb86659fd93u;
  auto lanes = lanes_;  // in registers
  for (const std::byte* stripe = bytes; stripe != bytes + count * kStripe; stripe += kStripe) {
    for (size_t i = 0; i < lanes.size(); ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, stripe + i * sizeof(word), sizeof(word));
      const std::uint64_t mixed = (lanes[i] ^ word) * kOdd;
      lanes[i] = mixed ^ mixed >> 32;
    }
  }
  lanes_ = lanes;
}

ContentHash& ContentHash::Add(std::span<const std::byte> bytes) {
  const size_t held = total_ % kStripe;
  total_ += bytes.size();
  if (held > 0) {
    const size_t part = std::min(bytes.size(), kStripe - held);
    std::copy_n(bytes.begin(), part, rest_.begin() + static_cast<std::ptrdiff_t>(held));
    bytes = bytes.subspan(part);
    if (held + part < kStripe) return *this;
    AddStripes(rest_.data(), 1);
  }
  const size_t stripes = bytes.size() / kStripe;
  AddStripes(bytes.data(), stripes);
  std::ranges::copy(bytes.subspan(stripes * kStripe), rest_.begin());
  return *this;
}

ContentKey ContentHash::Value() const {
  const Digest digest = Sha256()
                            .Add(std::as_bytes(std::span(lanes_)))
                            .Add(std::span(rest_).first(total_ % kStripe))
                            .Add(total_)
                            .Finish();
  ContentKey key;
  std::memcpy(key.data(), digest.data(), sizeof(key));
  return key;
}

ContentKey HashInParallel(std::span<const std::byte> bytes, ThreadPool& pool) {
  constexpr size_t kPiece = size_t{4} << 20;
  std::vector<ContentKey> keys((bytes.size() + kPiece - 1) / kPiece);
  pool.ForEach(static_cast<std::int64_t>(keys.size()), [&](std::int64_t piece, int) {
    const size_t begin = static_cast<size_t>(piece) * kPiece;
    const auto part = bytes.subspan(begin, std::min(kPiece, bytes.size() - begin));
    keys[static_cast<size_t>(piece)] = ContentHash().Add(part).Value();
  });
  return ContentHash().Add(std::as_bytes(std::span(keys))).Value();
}

std::string ToHex(const ContentKey& key) { return fmt::format("{:016x}{:016x}", key[0], key[1]); }

std::string Base64(std::string_view bytes) {
  BANYAN_CHECK(bytes.size() < size_t{1} << 30);
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // and the zero byte that OpenSSL adds
  const int length = ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                       reinterpret_cast<const unsigned char*>(bytes.data()),
                                       static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

}  // namespace banyan
