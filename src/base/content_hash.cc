#include "base/content_hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/sha256.h"
#include "base/thread_pool.h"

namespace banyan {

ContentHash::ContentHash() {
  for (size_t i = 0; i < lanes_.size(); ++i) lanes_[i] = 0x9e3779b97f4a7c15u * (i + 1);
}

// For a given lane every word leads to another value, and for a given word every lane: that is why
// a single changed word is always noticed.
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

}  // namespace banyan
